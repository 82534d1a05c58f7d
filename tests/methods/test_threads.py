"""The number of threads does not change a bit of any result."""

CODE = """
import hashlib
import numpy as np, nlattn
rng = np.random.default_rng(0)

def show(*arrays):
    print(hashlib.sha256(b"".join(x.tobytes() for x in arrays)).hexdigest())

q, k, v = (rng.standard_normal((2, 700, 32), dtype=np.float32) for _ in range(3))
for name in ("hyper", "kdeformer", "smyrf", "reformer"):
    for is_causal in (False, True):
        show(getattr(nlattn, name + "_attention")(q, k, v, 32, 4, is_causal=is_causal, rng=0))
q, k, v = (rng.standard_normal((2, h, 2500, 16), dtype=np.float32) for h in (4, 2, 2))
for is_causal in (False, True):
    show(*nlattn.multipole_attention(q, k, v, 300, is_causal=is_causal, return_lse=True))
"""


def test_threads_do_not_matter(run_python):
    one, two = (run_python(CODE, NLATTN_NUM_THREADS=n) for n in ("1", "2"))
    assert one == two
    assert len(set(one.split())) == 10
