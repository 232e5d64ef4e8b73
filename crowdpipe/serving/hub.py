"""Fetches a model from the Hugging Face Hub, or from a server that speaks its protocol.

`hf://org/name`, `hf://org/name/folder/file.onnx`, `hf://org/name@revision/…`. Downloads are
resumed, and kept in a cache of ours as plain files: the Hub's own cache links, and weights behind
links are refused. Takes the graph first and then the files that it names, nothing else of the
repository. Secrets and proxies are those that `huggingface_hub` is set up with; HF_ENDPOINT names
another server.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from wire.errors import DiskFull, HubUnreachable, Malformed, UnknownModel, UserError

SCHEME = "hf://"
USUAL_NAMES = ("model.onnx", "onnx/model.onnx")
_REFERENCE = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([^/]+))?(?:/(.+))?")
TOLD_NAMES = 8
TIMEOUT_S = 30.0  # of asking what there is; downloads have huggingface_hub's own limits


@dataclass(frozen=True, slots=True)
class HubReference:
    """A repository, a revision of it (None: its main branch), and a file in it."""

    repository: str
    revision: str | None
    path: str | None


def parse_hub(text: str) -> HubReference:
    """Raises `UserError` for text that names no model there."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise UserError(
            f"{text!r} is not the name of a model: write it as hf://org/name or hf://org/name/path"
        )
    return HubReference(found.group(1), found.group(2), found.group(3))


def fetch_from_hub(text: str, cache: Path) -> Path:
    """The model file in `cache`, with the files of weights that it names beside it.

    Raises `UserError` (how to install what is missing, which file to name), `UnknownModel`,
    `HubUnreachable`, `InvalidModel` or `DiskFull`.
    """
    reference = parse_hub(text)
    hub = _import_hub()
    with _told(reference):
        info = hub.HfApi().model_info(
            reference.repository, revision=reference.revision, timeout=TIMEOUT_S
        )
        names = sorted(_safe(one.rfilename) for one in info.siblings or [])
        chosen = choose_model(names, reference.path, text)
        folder = cache / reference.repository.replace("/", "--") / str(info.sha or "main")
        fetch = _Fetch(hub, reference.repository, info.sha, folder)
        path = fetch.file(chosen)
        fetch.weights(path, PurePosixPath(chosen).parent, names)
    return path


@dataclass(frozen=True)
class _Fetch:
    """One revision of a repository, whose files go to `folder`."""

    hub: Any
    repository: str
    revision: str | None
    folder: Path

    def file(self, name: str) -> Path:
        return Path(
            self.hub.hf_hub_download(
                self.repository, name, revision=self.revision, local_dir=self.folder
            )
        )

    def weights(self, path: Path, beside: PurePosixPath, names: list[str]) -> None:
        """The files that the graph refers to. One that the repository does not have, or that is
        outside of it, is for the segmenter to refuse."""
        from orchestrator.segmentation.reading.source import external_files

        for location in external_files(path):
            name = (beside / location).as_posix()
            if name in names:
                self.file(name)


def choose_model(names: Iterable[str], wished: str | None, where: str) -> str:
    """The model among a folder's file names: the wished one, the only one, or the usual one.

    Raises `UnknownModel` if there is none, `UserError` that lists them if there are several.
    """
    models = [name for name in names if name.endswith(".onnx")]
    if wished is not None:
        if wished in models:
            return wished
        raise UnknownModel(f"{where}: there is no such file. {_listed(models)}")
    usual = [name for name in USUAL_NAMES if name in models]
    if len(models) == 1 or usual:
        return (usual or models)[0]
    if not models:
        raise UnknownModel(f"{where} holds no .onnx file")
    raise UserError(f"{where} holds several models; add the file's name. {_listed(models)}")


def _listed(models: list[str]) -> str:
    more = ", …" if len(models) > TOLD_NAMES else ""
    return f"ONNX files there: {', '.join(models[:TOLD_NAMES]) or 'none'}{more}"


def _safe(name: str) -> str:
    """A file name as a server tells it: it must stay below the folder it is written to."""
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise Malformed(f"the hub lists a file called {name[:120]!r}, which leaves its folder")
    return name


def _import_hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UserError(
            "models from the hub need huggingface_hub; type: pip install 'crowdpipe[hub]'"
        ) from None
    return huggingface_hub


@contextmanager
def _told(reference: HubReference) -> Iterator[None]:
    """Turns what `huggingface_hub` raises into our errors."""
    from huggingface_hub import errors

    name = reference.repository
    try:
        yield
    except errors.GatedRepoError:
        raise UserError(
            f"{name} asks for a login: accept its terms on its page, then type: hf auth login"
        ) from None
    except errors.RevisionNotFoundError:
        raise UnknownModel(f"{name} has no revision {reference.revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise UnknownModel(
            f"the hub has no model {name!r}, or it is private and needs: hf auth login"
        ) from None
    except errors.HFValidationError as error:
        raise UserError(f"hf://{name}: {error}") from None
    except errors.OfflineModeIsEnabled:
        raise HubUnreachable(
            "huggingface_hub is set to work offline (HF_HUB_OFFLINE); unset that, or give a file"
        ) from None
    except OSError as error:
        raise _mended(error, reference) from None
    except Exception as error:
        # Its HTTP library's errors have no base in common with its own, and the library changed
        # between its versions (requests, httpx, httpx2): told apart by where they come from.
        if type(error).__module__.startswith(("http", "requests")):
            raise _unreachable(error) from None
        raise


def _mended(error: OSError, reference: HubReference) -> Exception:
    if error.errno == errno.ENOSPC:
        return DiskFull(f"no room for hf://{reference.repository}: {error.filename or error}")
    return _unreachable(error)


def _unreachable(error: Exception) -> HubUnreachable:
    from huggingface_hub import constants

    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return HubUnreachable(
        f"the hub at {constants.ENDPOINT} cannot be read ({reason}); check the network, or give "
        "a file instead"
    )
