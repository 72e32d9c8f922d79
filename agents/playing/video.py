"""Frames as a video or as pictures. The files are written by imageio, an optional dependency."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from agents.errors import ConfigurationError

if TYPE_CHECKING:
    from agents.playing.play import Frame

INSTALL = 'pip install "imageio[ffmpeg]"'
SUFFIXES = (".gif", ".mp4")

_MOST_FPS_OF_GIF = 50.0


class VideoFile:
    """A video file, ``.gif`` or ``.mp4``, to which frames are added.

    A context manager; the file is complete when the block ends, if there was a frame.

    Args:
        path: The file; an existing file is replaced, but kept if an error ends the video (Ctrl-C is not an error).
        fps: Frames per second. A GIF has at most 50: players slow down frames that are shorter than 20 ms.

    Raises:
        ConfigurationError: Another kind of file, a file that cannot be written, or a missing package.
    """

    def __init__(self, path: Path, fps: float) -> None:
        if path.suffix.lower() not in SUFFIXES:
            raise ConfigurationError(f"{str(path)!r} is not a video: give a file that ends in {' or '.join(SUFFIXES)}.")
        if not path.parent.is_dir():
            raise ConfigurationError(f"The video {str(path)!r} cannot be written: make its folder first.")
        imageio = _imageio()
        self._is_gif = path.suffix.lower() == ".gif"
        self._fps = min(fps, _MOST_FPS_OF_GIF) if self._is_gif else fps
        self._durations: list[int] = []  # of the frames of a GIF, in ms
        if not self._is_gif:
            try:
                import imageio_ffmpeg  # noqa: F401 - only checked for its presence
            except ImportError:
                raise ConfigurationError(f"Videos in MP4 need imageio-ffmpeg: {INSTALL}. Or write a .gif.") from None
        self._path = path.resolve()  # the target of a link
        self._growing = self._path.with_name(f".{os.getpid()}.new{path.suffix}")
        try:
            if self._path.is_dir():
                raise IsADirectoryError("it is a folder")
            self._growing.touch()
        except OSError as error:
            raise ConfigurationError(f"The video {str(path)!r} cannot be written: {error.strerror or error}.") from None
        self._writer: Any = (
            imageio.imopen(self._growing, "w", plugin="pillow")
            if self._is_gif
            else imageio.get_writer(self._growing, mode="I", fps=fps, macro_block_size=1)
        )

    def add(self, frame: Frame) -> None:
        """Add a frame."""
        if not self._is_gif:
            height, width, _ = frame.shape  # players need even sizes
            self._writer.append_data(np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge"))
            return
        n = len(self._durations)  # a GIF counts in 10 ms: single frames are rounded, the time of all of them is not
        self._durations.append(10 * (round(100 * (n + 1) / self._fps) - round(100 * n / self._fps)))
        self._writer.write(frame, duration=self._durations if n else self._durations[0], loop=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._writer.close()
            if self._growing.stat().st_size and (kind is None or issubclass(kind, KeyboardInterrupt)):
                self._growing.replace(self._path)
        finally:
            self._growing.unlink(missing_ok=True)


class Pictures(contextlib.AbstractContextManager["Pictures"]):
    """A folder to which frames are written as PNG files: ``000000.png``, ``000001.png``, ...

    Args:
        folder: An empty folder, created if it does not exist.

    Raises:
        ConfigurationError: The folder is not empty, or imageio is not installed.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigurationError(f"{str(folder)!r} is not empty: give an empty folder for the frames.")
        self._imageio = _imageio()
        self._folder = folder
        self._n = 0
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, frame: Frame) -> None:
        """Write a frame."""
        self._imageio.imwrite(self._folder / f"{self._n:06d}.png", frame)
        self._n += 1

    def __exit__(self, *_: object) -> None:
        pass


def _imageio() -> ModuleType:
    try:
        import imageio.v2 as imageio
    except ImportError:
        raise ConfigurationError(f"Videos and pictures need imageio: {INSTALL}") from None
    module: ModuleType = imageio
    return module
