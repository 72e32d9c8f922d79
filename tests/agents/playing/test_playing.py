"""Tests of playing with an agent: episodes, frames, videos and pictures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
from fakes import SMALL_PPO
from gymnasium.envs.classic_control import CartPoleEnv

import agents
from agents import ConfigurationError, EnvironmentSpec
from agents.playing.video import Pictures, VideoFile


@pytest.fixture(scope="module")
def agent() -> Any:
    return agents.make("ppo", "CartPole-v1", **SMALL_PPO)


def test_play_gives_same_episodes_as_evaluate(agent: Any) -> None:
    received: list[Any] = []
    played = agents.play(agent, n_episodes=4, seed=7, on_episode=received.append)
    assert [each.episode_return for each in played] == agents.evaluate(agent, n_episodes=4, n_envs=1, seed=7).tolist()
    assert all((each.length, each.cut) == (each.episode_return, False) for each in played)
    assert received == played


def test_max_steps_cuts_episode(agent: Any) -> None:
    assert agents.play(agent, max_steps=3) == [agents.PlayedEpisode(3.0, 3, cut=True)]


def test_on_frame_receives_every_frame(agent: Any) -> None:
    frames: list[Any] = []
    played = agents.play(agent, n_episodes=2, on_frame=frames.append)
    assert len(frames) == sum(each.length + 1 for each in played)
    assert frames[0].shape == (400, 600, 3)
    assert frames[0].dtype == np.uint8
    assert not np.array_equal(frames[0], frames[played[0].length])


def test_play_on_screen(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    [played] = agents.play(agent, render_mode="human", max_steps=2)
    assert played.length == 2


def test_play_does_not_change_agent_unless_exploring(agent: Any) -> None:
    before = agent.rng.bit_generator.state
    agents.play(agent, max_steps=5)
    assert agent.rng.bit_generator.state == before
    agents.play(agent, max_steps=5, explore=True)
    assert agent.rng.bit_generator.state != before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_episodes": 0}, "n_episodes must be >= 1, got 0"),
        ({"max_steps": 0}, "max_steps must be >= 1, got 0"),
        ({"render_mode": "holograms"}, "CartPole-v1 has no render mode 'holograms': it has human, rgb_array"),
    ],
)
def test_invalid_arguments_are_refused(agent: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        agents.play(agent, **arguments)


def test_play_on_missing_screen_is_refused(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="There is no screen here"):
        agents.play(agent, render_mode="human")


class Falling(CartPoleEnv):
    def step(self, action: Any) -> Any:
        raise RuntimeError("it falls")


def test_environment_errors_are_raised(agent: Any) -> None:
    with pytest.raises(RuntimeError, match="it falls"):
        agents.play(agent, EnvironmentSpec(Falling))
    with pytest.raises(ConfigurationError, match=r"^Environment 'CartPole-v1' cannot be made"):
        agents.play(agent, EnvironmentSpec("CartPole-v1", {"colour": 1}))


def frames_of_colours() -> list[Any]:
    return [np.full((41, 61, 3), 60 * number, np.uint8) for number in range(4)]


def test_gif_contains_every_frame(tmp_path: Path) -> None:
    with VideoFile(tmp_path / "out.gif", 25.0) as video:
        for frame in frames_of_colours():
            video.add(frame)
    read = imageio.imread(tmp_path / "out.gif", index=None)
    assert read.shape == (4, 41, 61, 3)
    np.testing.assert_allclose(read.mean(axis=(1, 2, 3)), [0.0, 60.0, 120.0, 180.0], atol=1.0)


def test_mp4_contains_every_frame(tmp_path: Path) -> None:
    with VideoFile(tmp_path / "out.mp4", 25.0) as video:
        for frame in frames_of_colours():
            video.add(frame)
    n_frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "out.mp4"))
    assert (n_frames, seconds) == (4, pytest.approx(4 / 25, abs=0.01))


@pytest.mark.parametrize(("fps", "seconds"), [(15.0, 2.0), (30.0, 1.0), (50.0, 0.6), (60.0, 0.6)])
def test_gif_is_as_long_as_its_episode(tmp_path: Path, fps: float, seconds: float) -> None:
    with VideoFile(tmp_path / "out.gif", fps) as video:
        for shade in range(30):
            video.add(np.full((8, 8, 3), 8 * shade, np.uint8))
    written = tmp_path / "out.gif"
    assert sum(imageio.immeta(written, index=frame)["duration"] for frame in range(30)) == 1000 * seconds


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_failed_video_keeps_previous_file(tmp_path: Path, suffix: str) -> None:
    place = tmp_path / f"out{suffix}"
    place.write_bytes(b"before")

    def record(error: BaseException) -> None:
        with VideoFile(place, 25.0) as video:
            video.add(frames_of_colours()[0])
            raise error

    with pytest.raises(RuntimeError, match="it falls"):
        record(RuntimeError("it falls"))
    assert list(tmp_path.iterdir()) == [place]
    assert place.read_bytes() == b"before"
    with pytest.raises(KeyboardInterrupt):
        record(KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == [place]
    assert len(place.read_bytes()) > 100


def test_video_is_written_to_target_of_link(tmp_path: Path) -> None:
    (tmp_path / "link.gif").symlink_to(tmp_path / "out.gif")
    with VideoFile(tmp_path / "link.gif", 25.0) as video:
        video.add(frames_of_colours()[0])
    assert (tmp_path / "link.gif").is_symlink()
    assert len((tmp_path / "out.gif").read_bytes()) > 100


def test_pictures_are_written_and_not_overwritten(tmp_path: Path) -> None:
    with Pictures(tmp_path / "frames") as pictures:
        for frame in frames_of_colours():
            pictures.add(frame)
    written = sorted((tmp_path / "frames").iterdir())
    assert [path.name for path in written] == ["000000.png", "000001.png", "000002.png", "000003.png"]
    np.testing.assert_array_equal(imageio.imread(written[2]), frames_of_colours()[2])
    with pytest.raises(ConfigurationError, match="is not empty"):
        Pictures(tmp_path / "frames")


def test_invalid_video_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"ends in \.gif or \.mp4"):
        VideoFile(tmp_path / "out.avi", 25.0)
    with pytest.raises(ConfigurationError, match="make its folder first"):
        VideoFile(tmp_path / "nowhere" / "out.gif", 25.0)
    (tmp_path / "folder.gif").mkdir()
    with pytest.raises(ConfigurationError, match="it is a folder"):
        VideoFile(tmp_path / "folder.gif", 25.0)
    with pytest.raises(ConfigurationError, match="cannot be written: File name too long"):
        VideoFile(tmp_path / f"{'x' * 300}.gif", 25.0)
    with pytest.raises(ConfigurationError, match="cannot be written: "):
        VideoFile(Path("/proc/out.gif"), 25.0)


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ConfigurationError, match=r'need imageio-ffmpeg: pip install "imageio\[ffmpeg\]"'):
        VideoFile(tmp_path / "out.mp4", 25.0)
    monkeypatch.setitem(sys.modules, "imageio.v2", None)
    with pytest.raises(ConfigurationError, match=r'need imageio: pip install "imageio\[ffmpeg\]"'):
        VideoFile(tmp_path / "out.gif", 25.0)
    with pytest.raises(ConfigurationError, match="need imageio"):
        Pictures(tmp_path / "frames")
