"""Keeps the choice of attention in the config.json of a Hugging Face model, which transformers itself does not write.

Without this a model that was trained with sparsemax computes softmax after `save_pretrained` and `from_pretrained`.
With it, config.json says

    "attn_implementation": "omegamax.sparsemax",                    which transformers reads
    "omegamax": {"normalizer": {"kind": "SquaredNorm"}}             which we read

so that `from_pretrained` attends as the saved model did where `register()` was called before. A process that has not
called it gets an error from transformers, which does not know an attention "omegamax.sparsemax".
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from omegamax import checks
from omegamax.attention.normalizers import Normalizer
from omegamax.integrations.descriptions import describe, normalizer_from, printable, written

PREFIX = "omegamax."  # names the library in the error of a process that does not have it
_NOTE = "omegamax"
_MODULES = "omegamax_modules"
_INSTALLED: list[type] = []

Registered = dict[str, Normalizer]
Register = Callable[[str, Normalizer], Any]


def install(registered: Registered, register: Register) -> None:
    """Makes transformers' configurations keep the choice from now on; a second call does nothing.

    Arguments:
        registered: the normalizers by name, read whenever a configuration is written or read
        register: called with a name and a normalizer to restore one
    """
    from transformers import PreTrainedConfig, PreTrainedModel

    if PreTrainedConfig in _INSTALLED:
        return
    _INSTALLED.append(PreTrainedConfig)
    written_dict, from_dict = PreTrainedConfig.to_diff_dict, PreTrainedConfig.from_dict
    save = PreTrainedModel.save_pretrained

    @functools.wraps(written_dict)  # what config.json holds; `to_dict` is called while models run, also compiled ones
    def written_dict_with_attention(self: Any) -> dict[str, Any]:
        return _noted(self, written_dict(self), registered)

    @functools.wraps(from_dict.__func__)
    def from_dict_with_attention(cls: type, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        overridden = kwargs.get("attn_implementation") is not None
        return from_dict.__func__(cls, _restored(config_dict, registered, register, overridden), **kwargs)

    @functools.wraps(save)
    def save_with_modules(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = _own_normalizers(self)
        try:
            if own:
                setattr(self.config, _MODULES, own)
            return save(self, *args, **kwargs)
        finally:
            self.config.__dict__.pop(_MODULES, None)

    PreTrainedConfig.to_diff_dict = written_dict_with_attention
    PreTrainedConfig.from_dict = classmethod(from_dict_with_attention)
    PreTrainedModel.save_pretrained = save_with_modules


def _noted(config: Any, found: dict[str, Any], registered: Registered) -> dict[str, Any]:
    """Adds the attention of a configuration, and of those inside it, to the dictionary that will be written."""
    found.pop(_NOTE, None)
    for key in getattr(config, "sub_configs", {}):
        inner = getattr(config, key, None)
        if inner is not None and isinstance(found.get(key), dict):
            _noted(inner, found[key], registered)
    choice = _choice(config, registered)
    if choice is None:
        return found
    found["attn_implementation"] = choice
    name = _name(config._attn_implementation)
    if name in registered:
        normalizer = registered[name]
        found[_NOTE] = {"normalizer": describe(normalizer), "class": type(normalizer).__name__}
    return found


def _choice(config: Any, registered: Registered) -> Any:
    """Returns the `attn_implementation` that restores this configuration and those inside it; None if none is ours.

    transformers hands the outer value to all configurations inside, None too. So where they differ it is a dictionary,
    whose key "" is the outer one's own.
    """
    own = _name(getattr(config, "_attn_implementation", None))
    inner = {key: getattr(config, key, None) for key in getattr(config, "sub_configs", {})}
    choices = {key: _choice(each, registered) for key, each in inner.items() if each is not None}
    mine = PREFIX + own if own in registered else None
    if all(choice == mine for choice in choices.values()):
        return mine
    return {key: choice for key, choice in {"": mine, **choices}.items() if choice is not None}


def _name(implementation: Any) -> Any:
    return implementation.removeprefix(PREFIX) if isinstance(implementation, str) else implementation


def _restored(found: Any, registered: Registered, register: Register, overridden: bool) -> Any:
    """Returns the dictionary of a configuration with names that are registered."""
    if not isinstance(found, dict):
        return found
    found = {
        key: value if key in (_NOTE, _MODULES) else _restored(value, registered, register, overridden)
        for key, value in found.items()
    }
    note, modules = found.pop(_NOTE, None), found.pop(_MODULES, None)
    implementation = found.get("attn_implementation")
    own = implementation.get("") if isinstance(implementation, dict) else implementation
    if isinstance(own, str) and own.startswith(PREFIX):
        _restore(_name(own), note if isinstance(note, dict) else {}, registered, register, overridden)
    if isinstance(implementation, (str, dict)):
        found["attn_implementation"] = _without_prefix(implementation)
    if modules and isinstance(modules, dict):
        _warn_of_modules(modules)
    return found


def _without_prefix(implementation: Any) -> Any:
    if isinstance(implementation, dict):
        return {key: _without_prefix(value) for key, value in implementation.items()}
    return _name(implementation)


def _restore(name: str, note: dict[str, Any], registered: Registered, register: Register, overridden: bool) -> None:
    """Registers the attention that a model was saved with; raises where another one would run under its name."""
    saved, kind = note.get("normalizer"), note.get("class")
    code = written(saved) if saved is not None else f"the {printable(kind or 'normalizer')} of training"
    if name in registered:
        now = registered[name]
        same = describe(now) == saved if saved is not None else kind in (None, type(now).__name__)
        if same or overridden:
            return
        got = describe(now)
        raise ValueError(
            f"from_pretrained: the attention {name!r} must be the one the model was saved with, {code}, got "
            f"{type(now).__name__ if got is None else written(got)}, which is registered under this name; call "
            f"register({name!r}, {code}) before loading, or pass attn_implementation= to choose another"
        )
    try:
        if saved is None:
            raise ValueError("it learns, or holds a function, which config.json cannot say")
        register(name, normalizer_from(saved))
    except ValueError as error:
        if not overridden:
            raise ValueError(
                f"from_pretrained: the attention {name!r} that the model was saved with must be registered, got none "
                f"and cannot make it: {error}; call register({name!r}, {code}) before loading, or pass "
                "attn_implementation= to choose another"
            ) from error


def _own_normalizers(model: Any) -> dict[str, str]:
    """Returns the attention modules that have a normalizer of their own, and its class."""
    own = {name: getattr(module, "normalizer", None) for name, module in model.named_modules()}
    return {name: type(each).__name__ for name, each in own.items() if isinstance(each, Normalizer)}


def _warn_of_modules(modules: dict[str, Any]) -> None:
    name, kind = next(iter(modules.items()))
    checks.warn(
        f"from_pretrained: {len(modules)} modules of the saved model had a normalizer of their own, got none of them "
        f"back ({kind!r} at {name!r} and so on): transformers builds only its own modules; set "
        "model.get_submodule(name).normalizer again and load the saved state_dict with strict=False"
    )
