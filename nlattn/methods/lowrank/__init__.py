"""Methods that replace the attention matrix by one of low rank."""
