"""For the reference: puts the examples of docstrings into code blocks, where Markdown would see nested quotations."""

import re

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Fences(Extension):
    def on_object(self, *, obj: Object, **kwargs) -> None:
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
