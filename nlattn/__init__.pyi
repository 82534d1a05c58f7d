from . import datasets as datasets
from . import errors as errors
from . import testing as testing
from .dispatch import use_backend as use_backend
from .guarantees.certificate import Certificate as Certificate
from .guarantees.certificate import certify as certify
from .guarantees.tolerance import AttentionResult as AttentionResult
from .guarantees.tolerance import attention as attention
from .methods.exact import exact_attention as exact_attention
from .methods.lowrank.nystrom import nystrom_attention as nystrom_attention
from .methods.registry import METHODS as METHODS
from .methods.registry import Method as Method
from .methods.sparse.streaming import streaming_attention as streaming_attention
from .partial import Partial as Partial
from .partial import merge_partials as merge_partials

__version__: str
