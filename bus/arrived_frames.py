"""Frames that came whole and were neither stored nor discarded yet, by what they are.

Some are held: chosen to be stored later, so that none that comes under the same name can take
their place.

Their bound is the courier's, which asks how much is held here. Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections import deque

from wire.frame_head import FrameHead
from wire.frames import decode_frame
from wire.ids import ActivationId

RAW_LIMIT_NBYTES = 1 << 40  # what a frame may decode to is judged by its model, not here


class ArrivedFrames:
    """Several frames may bear one name (a repeat, or a stranger's): they are taken in the order
    in which they came, which is that of the events that tell of them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._frames: dict[ActivationId, deque[bytes]] = {}
        self._held: dict[ActivationId, bytes] = {}
        self._nbytes = 0

    @property
    def held_nbytes(self) -> int:
        return self._nbytes

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        """Raises `Malformed` if its layout is not what its header says."""
        decode_frame(frame, RAW_LIMIT_NBYTES)
        with self._guard:
            self._frames.setdefault(header.activation, deque()).append(frame)
            self._nbytes += len(frame)

    def take(self, activation: ActivationId) -> bytes | None:
        """The oldest frame of that name, which then is here no more."""
        with self._guard:
            frame = self._oldest(activation)
            self._nbytes -= len(frame or b"")
            return frame

    def drop_latest(self, activation: ActivationId) -> None:
        """The youngest frame of that name goes: nobody will be told of it. For the thread that
        kept it just now."""
        with self._guard:
            waiting = self._frames.get(activation)
            if waiting:
                self._nbytes -= len(waiting.pop())
                if not waiting:
                    del self._frames[activation]

    def hold(self, activation: ActivationId) -> None:
        """Keep the oldest frame of that name by itself; it counts as before. One that is held
        already stays, and the other goes."""
        with self._guard:
            frame = self._oldest(activation)
            if frame is not None and self._held.setdefault(activation, frame) is not frame:
                self._nbytes -= len(frame)

    def take_held(self, activation: ActivationId) -> bytes | None:
        """The held frame of that name, which then is here no more."""
        with self._guard:
            frame = self._held.pop(activation, None)
            self._nbytes -= len(frame or b"")
            return frame

    def _oldest(self, activation: ActivationId) -> bytes | None:
        waiting = self._frames.get(activation)
        if waiting is None:
            return None
        frame = waiting.popleft()
        if not waiting:
            del self._frames[activation]
        return frame
