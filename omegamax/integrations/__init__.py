"""Puts normalizers into models that people already have: PyTorch's own layers and Hugging Face's.

Nothing is imported from other libraries until it is used.
"""

from omegamax.integrations import transformers as transformers
from omegamax.integrations.convert import convert as convert
from omegamax.spelling import install as _install

_install(__name__)
