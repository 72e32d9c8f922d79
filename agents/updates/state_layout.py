"""The variables of an agent, laid out in a few vectors.

TensorFlow hands over every variable at each call, and XLA copies each in an operation of its own. Vectors are few, and
an optimizer changes whole vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agents.backend.tensorflow import tf

Array = np.ndarray[Any, Any]

_SMALL = 256
"""Size below which a group of variables has no vector of its own."""


class Place(NamedTuple):
    """Where the values of a variable are."""

    vector: int
    begin: int
    end: int


class StateLayout:
    """Variables in vectors, one after another.

    Args:
        variables: The variables, each once.
        groups: Variables that are laid out together, in this order, if they have one dtype and are large together; a
            group of one has a vector in any case. All others follow: large ones alone, the rest grouped by dtype. With
            None, every variable has a vector of its own.

    Attributes:
        variables: The variables.
        vectors: The variables of each vector, in order.
    """

    def __init__(self, variables: Sequence[Any], groups: Sequence[Sequence[Any]] | None = ()) -> None:
        self.variables = list(variables)
        self.vectors = [[variable] for variable in variables] if groups is None else _grouped(variables, groups)
        self._whole = {tuple(map(id, own)): index for index, own in enumerate(self.vectors)}
        self._places: dict[int, Place] = {}
        for vector, own in enumerate(self.vectors):
            begin = 0
            for variable in own:
                end = begin + _size([variable])
                self._places[id(variable)], begin = Place(vector, begin, end), end

    @property
    def shapes(self) -> list[tuple[int, str]]:
        """Length and dtype of each vector."""
        return [(_size(own), own[0].dtype) for own in self.vectors]

    def place(self, variable: Any) -> Place:
        """Return where the values of a variable are."""
        return self._places[id(variable)]

    def vectors_of(self, variables: Iterable[Any]) -> list[int]:
        """Return the indices of the vectors that hold any of these variables, ascending; others are ignored."""
        return sorted({self._places[id(each)].vector for each in variables if id(each) in self._places})

    def vector_with(self, variables: Sequence[Any]) -> int | None:
        """Return the index of the vector that consists of exactly these variables in this order, None if none does."""
        return self._whole.get(tuple(map(id, variables)))

    def split(self, index: int, vector: Any) -> list[tuple[Any, Any]]:
        """Return pairs of a variable and its value, of one vector [S] as a tensor."""
        own = self.vectors[index]
        parts = tf.split(vector, [_size([variable]) for variable in own]) if len(own) > 1 else [vector]
        return [(variable, tf.reshape(part, variable.shape)) for variable, part in zip(own, parts, strict=True)]

    def values_of(self, vectors: Mapping[int, Array], variables: Iterable[Any]) -> list[Array]:
        """Return the values of variables for P members, [P, ...] each, from vectors [P, S]; views if possible."""
        values = []
        for variable in variables:
            place = self.place(variable)
            own = vectors[place.vector]
            values.append(own[:, place.begin : place.end].reshape(len(own), *variable.shape))
        return values

    def join(self, values: Sequence[Array]) -> list[Array]:
        """Return the vectors of P members, [P, S] each, from the values of all variables, [P, ...] each."""
        given = {id(variable): value for variable, value in zip(self.variables, values, strict=True)}
        n = len(values[0])
        return [np.concatenate([given[id(each)].reshape(n, -1) for each in own], axis=1) for own in self.vectors]


def flat(tensors: Sequence[Any]) -> Any:
    """Return tensors as one vector."""
    parts = [tf.reshape(tensor, [-1]) for tensor in tensors]
    return tf.concat(parts, 0) if len(parts) > 1 else parts[0]


def _size(variables: Iterable[Any]) -> int:
    return sum(math.prod(variable.shape) for variable in variables)


def _grouped(variables: Sequence[Any], groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the variables of each vector; see `StateLayout`."""
    left = {id(variable): variable for variable in variables}
    vectors = []
    for group in groups:
        own = {id(variable): variable for variable in group if id(variable) in left}
        large = _size(own.values()) >= _SMALL and len({variable.dtype for variable in own.values()}) == 1
        if large or len(own) == 1:
            vectors.append(list(own.values()))
            left = {key: variable for key, variable in left.items() if key not in own}
    rest: dict[str, list[Any]] = {}
    for variable in left.values():
        if _size([variable]) >= _SMALL:
            vectors.append([variable])
        else:
            rest.setdefault(variable.dtype, []).append(variable)
    return [*vectors, *rest.values()]
