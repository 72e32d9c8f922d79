"""Tests of shared objects: all processes see the same object, no call is lost, and no object stays locked."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from processes import running, session_members

import agents
from agents import ConfigurationError, EnvironmentSpec, LambdaCallback
from agents.distributed import Counter
from agents.shared_objects import address_for_processes, place, sockets
from agents.shared_objects.handle import SharedObject
from agents.shared_objects.sockets import Address, SocketStore
from agents.shared_objects.store import Call, ObjectStore, Store

BEGUN, GO_ON = threading.Event(), threading.Event()
HANGS_SECONDS = 600
"""Seconds after which a call that should have ended is considered hanging."""


@pytest.fixture
def waiting_call() -> Iterator[None]:
    """Let `Best.wait` wait until GO_ON is set."""
    BEGUN.clear()
    GO_ON.clear()
    yield
    GO_ON.set()


class Best:
    """Best value so far, with its owner."""

    def __init__(self) -> None:
        self.found: tuple[float, str] | None = None

    def tell(self, value: float, whose: str) -> bool:
        if self.found is not None and value <= self.found[0]:
            return False
        time.sleep(0.001)  # long enough for other calls to interfere if there was no lock
        self.found = (value, whose)
        return True

    def get(self) -> tuple[float, str] | None:
        return self.found

    def sleep(self, seconds: float) -> str:
        time.sleep(seconds)
        return f"slept for {seconds}"

    def wait(self) -> bool:
        """Return when the test sets GO_ON, in the process of the test."""
        BEGUN.set()
        return GO_ON.wait(HANGS_SECONDS)

    def fail(self) -> None:
        raise LookupError("there is nothing")

    def leave(self) -> None:
        sys.exit("bye")

    def lock(self) -> Any:
        return threading.Lock()


@pytest.fixture(params=["here", "there"])
def store(request: pytest.FixtureRequest) -> Store:
    """Objects of this process, accessed directly and through a socket."""
    address = address_for_processes()
    return place.here().store() if request.param == "here" else SocketStore(Address.of(address))


def test_counter_adds_and_resets():
    counter = Counter()
    assert [counter.add(), counter.add(2), counter.add(-0.5)] == [1, 3, 2.5]
    assert (counter.reset(), counter.value()) == (2.5, 0)
    assert (counter.reset(7), counter.value()) == (0, 7)


class TestEveryStore:
    def test_object_is_made_once(self, store: Store):
        assert store.call(Call("b", "tell", (1.0,), {"whose": "a"}, Best))
        assert not store.call(Call("b", "tell", (0.5, "b"), {}, Best))
        assert store.call(Call("b", "get", make=Best)) == (1.0, "a")
        assert store.call(Call("other", "get", make=Best)) is None

    def test_failed_construction_may_be_repeated(self, store: Store):
        with pytest.raises(ZeroDivisionError):
            store.call(Call("c", "value", make=lambda: Counter(1 / 0)))
        assert store.call(Call("c", "value", make=lambda: Counter(3))) == 3

    def test_errors_of_methods_are_raised(self, store: Store):
        with pytest.raises(LookupError, match="there is nothing"):
            store.call(Call("b", "fail", make=Best))
        with pytest.raises((RuntimeError, SystemExit), match="bye"):
            store.call(Call("b", "leave", make=Best))
        assert store.call(Call("b", "get", make=Best)) is None

    @pytest.mark.parametrize("method", ["push", "found", "_private", "__init__"])
    def test_unknown_method_is_refused_with_known_methods(self, store: Store, method: str):
        with pytest.raises(AttributeError, match=rf"'b', a Best, has no method '{method}': .*get.*tell"):
            store.call(Call("b", method, make=Best))

    def test_calls_of_threads_are_not_lost(self, store: Store):
        def add() -> None:
            for _ in range(200):
                store.call(Call("n", "add", make=Counter))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.call(Call("n", "value", make=Counter)) == 800


@pytest.mark.usefixtures("waiting_call")
def test_slow_call_does_not_block_other_objects():
    best, counter, results = agents.distributed.shared("b", Best), agents.distributed.shared("n"), []
    thread = threading.Thread(target=lambda: results.append(best.wait()))
    thread.start()
    assert BEGUN.wait(HANGS_SECONDS)
    counter.add()
    assert results == [], "a call returned before the running call had ended"
    GO_ON.set()
    thread.join()
    assert results == [True]


def test_result_that_cannot_be_pickled_is_refused():
    there = SocketStore(Address.of(address_for_processes()))
    with pytest.raises(TypeError, match="lock"):
        there.call(Call("b", "lock", make=Best))
    assert there.call(Call("b", "get", make=Best)) is None


def test_empty_name_is_refused_and_handle_can_be_pickled():
    with pytest.raises(ConfigurationError, match="needs a name"):
        agents.distributed.shared("")
    counter = agents.distributed.shared("n")
    assert isinstance(counter, SharedObject)
    pickle.loads(pickle.dumps(counter)).add(5)
    assert (counter.value(), repr(counter)) == (5, "shared('n')")
    with pytest.raises(AttributeError):
        _ = counter._value


# --- other processes

SCRIPT = """
import sys
import agents


class Longest:
    def __init__(self):
        self.words = []

    def tell(self, word):
        self.words.append(word)
        return max(self.words, key=len)


print(agents.distributed.shared("words", Longest).tell(sys.argv[1]), agents.distributed.shared("n").add(2))
"""


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return (done.stdout + done.stderr).strip()


@pytest.mark.real
def test_later_processes_share_objects_of_their_script():
    counter = agents.distributed.shared("n")
    assert [run(SCRIPT, word) for word in ("one", "three", "four")] == ["one 2", "three 4", "three 6"]
    assert counter.value() == 6


@pytest.mark.real
def test_forked_process_uses_objects_of_its_parent():
    counter = agents.distributed.shared("n")
    counter.add()
    child = os.fork()
    if not child:
        os._exit(int(counter.add() + agents.distributed.shared("other").add()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert (counter.value(), agents.distributed.shared("other").value()) == (2, 1)


FORKING = """
import os, time, agents
counter = agents.distributed.shared("n")
print(os.environ["FINDER_SHARED"], flush=True)
while not counter.value():
    time.sleep(0.01)
time.sleep(0.2)  # until that is answered
if os.fork():
    os._exit(0)
time.sleep(600)
"""


@pytest.mark.real
def test_child_of_dead_server_does_not_keep_its_socket_open():
    process = subprocess.Popen(
        [sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        with process:
            assert process.stdout is not None
            there = SocketStore(Address.of(process.stdout.readline().strip()))
            there.call(Call("n", "add", make=Counter))
        for why in ("EOFError|ConnectionReset", "ConnectionRefused"):  # on the existing connection, and on a new one
            with pytest.raises(ConnectionError, match=rf"The shared object 'n' is gone .*({why}).*serve_shared"):
                there.call(Call("n", "value", make=Counter))
        assert session_members(process.pid), "the child process has ended"
    finally:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.real
@pytest.mark.usefixtures("waiting_call")
def test_process_killed_during_call_leaves_no_lock():
    """The next call waits for the end of that call, which does not need its caller."""
    best, results = agents.distributed.shared("b", Best), []
    best.get()
    with running([sys.executable, "-c", "import agents; agents.distributed.shared('b').wait()"]):  # until it is killed
        assert BEGUN.wait(HANGS_SECONDS)
    thread = threading.Thread(target=lambda: results.append(best.tell(1.0, "me")))
    thread.start()
    thread.join(timeout=0.3)
    assert results == [], "two calls of one object ran at the same time"
    GO_ON.set()
    thread.join(timeout=HANGS_SECONDS)
    assert results == [True]


def test_answer_of_interrupted_call_is_not_given_to_next_call():
    there = SocketStore(Address.of(address_for_processes()))

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            there.call(Call("b", "sleep", (0.5,), {}, Best))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert there.call(Call("n", "add", make=Counter)) == 1


# --- servers


def test_unresponsive_server_times_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = Address("127.0.0.1", silent.getsockname()[1], "key")
        with pytest.raises(ConnectionError, match=r"'steps' is gone.*does not answer"):
            SocketStore(address).call(Call("steps", "add", make=Counter))


@pytest.mark.parametrize(
    "request_",
    [pickle.dumps(42), pickle.dumps(None), pickle.dumps(("a", "b")), pickle.dumps(Call(3, "get")), b"junk"],  # type: ignore[arg-type]
)
def test_invalid_request_is_refused_and_connection_stays_open(request_: bytes) -> None:
    server = sockets.Server(ObjectStore({"best": Best()}).call)
    store = SocketStore(server.listen())
    kind, error = pickle.loads(store._ask("best", request_))
    assert kind == "raised"
    assert isinstance(error, Exception)
    assert store.call(Call("best", "tell", (1.0, "mine"))) is True
    assert store.call(Call("best", "get")) == (1.0, "mine")
    store._disconnect()


def test_client_with_wrong_key_is_refused():
    address = Address.of(address_for_processes())
    with pytest.raises(ConnectionError, match="Authentication"):
        SocketStore(address._replace(key="another")).call(Call("n", "add", make=Counter))
    with socket.create_connection(address[:2]):  # a silent connection does not block others
        assert SocketStore(address).call(Call("n", "add", make=Counter)) == 1


@pytest.mark.parametrize("sent", [b"", b"\0\0"])  # nothing, and half of a length
def test_client_without_key_is_disconnected_after_timeout(sent: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sockets, "CONNECT_SECONDS", 0.5)
    address = Address.of(address_for_processes())
    with socket.create_connection(address[:2], timeout=10) as silent:
        silent.sendall(sent)
        while silent.recv(1000):  # until it is closed
            pass
    there = SocketStore(address)
    assert there.call(Call("n", "add", make=Counter)) == 1
    time.sleep(0.7)  # an authenticated client may be silent for long
    assert there.call(Call("n", "add", make=Counter)) == 2


def test_many_silent_clients_do_not_block_others(monkeypatch: pytest.MonkeyPatch):
    def n_served() -> int:
        return sum(thread.name == "shared-objects" for thread in threading.enumerate())

    monkeypatch.setattr(sockets, "MAX_UNAUTHENTICATED", 5)
    address = Address.of(address_for_processes())
    there, before = SocketStore(address), n_served()
    assert there.call(Call("n", "add", make=Counter)) == 1
    crowd = [socket.create_connection(address[:2]) for _ in range(20)]
    assert SocketStore(address).call(Call("n", "add", make=Counter)) == 2
    until = time.monotonic() + 10
    while n_served() > before + 7:  # in addition to the silent clients the two authenticated ones
        assert time.monotonic() < until, n_served()
        time.sleep(0.01)
    assert there.call(Call("n", "add", make=Counter)) == 3
    for silent in crowd:
        silent.close()


@pytest.mark.parametrize("text", ["nonsense", "key@host", "@host:1", "key@host:port"])
def test_invalid_addresses_are_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(place.VARIABLE, text)
    with pytest.raises(ConfigurationError, match="KEY@HOST:PORT"):
        agents.distributed.shared("n")


@pytest.mark.real
def test_serve_shared_listens_for_other_machines(monkeypatch: pytest.MonkeyPatch):
    counter = agents.distributed.shared("n")
    exported = agents.distributed.serve_shared("0.0.0.0:0")
    assert Address.of(exported).host not in ("0.0.0.0", "127.0.0.1")
    assert run("import agents; print(agents.distributed.shared('n').add(3))", FINDER_SHARED=exported) == "3"
    assert counter.value() == 3
    output = run("import agents; agents.distributed.serve_shared('127.0.0.1:0')", FINDER_SHARED=exported)
    assert "This process uses the shared objects of" in output
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        agents.distributed.serve_shared("here")
    taken = Address.of(exported).port
    with pytest.raises(ConfigurationError, match=f"cannot be served at 127.0.0.1:{taken}"):
        agents.distributed.serve_shared(f"127.0.0.1:{taken}")


# --- Ray


@pytest.mark.real
def test_objects_in_ray_are_gone_after_shutdown():
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    before = signal.getsignal(signal.SIGTERM)
    ray.init("local", num_cpus=1, logging_level="ERROR", log_to_driver=False, include_dashboard=False)
    signal.signal(signal.SIGTERM, before)  # otherwise Ray replaces the handler
    try:
        counter = agents.distributed.shared("n")
        counter.add(3)
    finally:
        ray.shutdown()
    with pytest.raises(ConnectionError, match="'n' is gone: it lived in Ray, which this process has left"):
        counter.add()
    assert agents.distributed.shared("other").add() == 1
    assert run("import agents; print(agents.distributed.shared('other').add())") == "2"


# --- environments and callbacks


class Counting(gym.Env[np.ndarray, int]):
    """Environment that counts its steps in a shared counter."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: int) -> Any:
        steps = agents.distributed.shared("steps").add()
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), float(action), steps % 7 == 0, False, {}


@pytest.mark.real
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_callback_reads_counter_of_environments(kind: str):
    params = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "hidden_sizes": [4], "jit_compile": False}
    seen = []

    def look(trainer: Any) -> None:
        seen.append(agents.distributed.shared("steps").value())
        if seen[-1] >= 50:
            trainer.stop("enough")

    agent = agents.make("ppo", EnvironmentSpec(Counting, {}, kind), **params)
    agents.Trainer(agent, callbacks=[LambdaCallback(on_step_end=look)]).train(env_steps=10_000)
    assert seen == list(range(2, 51, 2))
