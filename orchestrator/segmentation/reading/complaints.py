"""The telling part of what ONNX Runtime and onnx complain of.

Their messages begin with codes, paths of their own source and signatures of its functions, for
lines on end. Decides nothing: whoever raises an error says what it means for the model.
"""

from __future__ import annotations

import re

LONGEST = 300
MAX_READ = 4000  # characters: a model's names, which are quoted, may have megabytes
_CODE = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_LOADING = re.compile(r"Load model from \S+ failed:\s*|Exception during initialization:\s*")
_NODE = re.compile(
    r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' Status Message: "
)
_ARGUMENTS = r"\((?:[^()]|\([^()]*\))*\)"
_SIGNATURE = rf"(?:[^()]*onnxruntime::[^()]*{_ARGUMENTS}(?: const)?(?: \[[^\]]*\])? )"
_PLACE = re.compile(rf"(?:/?[\w.+-]+/)*[\w.+-]+\.(?:cc|h|cpp):\d+ (?:{_SIGNATURE}|[A-Za-z_]\w* )?")
_CONDITION = re.compile(r"[^:]* was false\. (?=\S)")


def telling_part(error: Exception) -> str:
    """One line, at most `LONGEST` characters: `Reshape 'r1': The input tensor cannot be …`."""
    said = " ".join(str(error)[:MAX_READ].split())
    said = _LOADING.sub("", _CODE.sub("", said))
    nodes = [f"{kind} {name!r}" if name else kind for kind, name in _NODE.findall(said)]
    said = _PLACE.sub("", _NODE.sub("", said))
    said = _CONDITION.sub("", said, count=1).strip() or type(error).__name__
    whole = ": ".join([*nodes, said])
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 2]} …"
