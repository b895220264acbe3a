# Licensed under the Apache License, Version 2.0; see LICENSE.
"""Full text queries: the objects, which a scan refuses yet."""
from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any


class FullTextQueryType(Enum):
    """Kinds of queries."""

    MATCH = "match"
    MATCH_PHRASE = "match_phrase"
    BOOST = "boost"
    MULTI_MATCH = "multi_match"
    BOOLEAN = "boolean"


class FullTextOperator(Enum):
    """How the terms of a query go together."""

    AND = "AND"
    OR = "OR"


class Occur(Enum):
    """What a part of a boolean query demands."""

    SHOULD = "SHOULD"
    MUST = "MUST"
    MUST_NOT = "MUST_NOT"


class FullTextQuery(ABC):
    """A query over text columns. ``a & b`` wants both, ``a | b`` one of them."""

    _inner: dict[str, Any]

    @property
    def inner(self) -> dict[str, Any]:
        """The query as a tree."""
        return self._inner

    @abstractmethod
    def query_type(self) -> FullTextQueryType:
        """Its kind."""

    def __and__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.MUST, self), (Occur.MUST, other)])

    def __or__(self, other: FullTextQuery) -> BooleanQuery:
        return BooleanQuery([(Occur.SHOULD, self), (Occur.SHOULD, other)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FullTextQuery) and self._inner == other._inner

    def __hash__(self) -> int:
        return hash(repr(self._inner))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner})"


class MatchQuery(FullTextQuery):
    """Rows of a column that hold the terms.

    Parameters
    ----------
    query : str
    column : str
    boost : float, default 1.0
        Factor of the scores.
    fuzziness : int or None, default 0
        Letters that may differ in a term; None = by its length.
    max_expansions : int, default 50
        Terms that a fuzzy one may stand for.
    operator : FullTextOperator, default OR
    prefix_length : int, default 0
        Letters at the start that may not differ.
    """

    def __init__(
        self,
        query: str,
        column: str,
        *,
        boost: float = 1.0,
        fuzziness: int | None = 0,
        max_expansions: int = 50,
        operator: FullTextOperator = FullTextOperator.OR,
        prefix_length: int = 0,
    ):
        self._inner = {
            "match": {
                "column": column,
                "terms": query,
                "boost": boost,
                "fuzziness": fuzziness,
                "max_expansions": max_expansions,
                "operator": operator.value.title(),
                "prefix_length": prefix_length,
            }
        }

    def query_type(self) -> FullTextQueryType:
        """MATCH."""
        return FullTextQueryType.MATCH


class PhraseQuery(FullTextQuery):
    """Rows of a column that hold the terms one after the other.

    Parameters
    ----------
    query : str
    column : str
    slop : int, default 0
        Places that the terms may be apart.
    """

    def __init__(self, query: str, column: str, *, slop: int = 0):
        self._inner = {"phrase": {"column": column, "terms": query, "slop": slop}}

    def query_type(self) -> FullTextQueryType:
        """MATCH_PHRASE."""
        return FullTextQueryType.MATCH_PHRASE


class BoostQuery(FullTextQuery):
    """Rows of a query, those of another one lower.

    Parameters
    ----------
    positive, negative : FullTextQuery
    negative_boost : float, default 0.5
    """

    def __init__(self, positive: FullTextQuery, negative: FullTextQuery, *, negative_boost: float = 0.5):
        self._inner = {"boost": {"positive": positive.inner, "negative": negative.inner, "negative_boost": negative_boost}}

    def query_type(self) -> FullTextQueryType:
        """BOOST."""
        return FullTextQueryType.BOOST


class MultiMatchQuery(FullTextQuery):
    """The same terms in several columns.

    Parameters
    ----------
    query : str
    columns : list of str
    boosts : list of float, optional
        A factor for each column.
    operator : FullTextOperator, default OR
    """

    def __init__(
        self,
        query: str,
        columns: list[str],
        *,
        boosts: list[float] | None = None,
        operator: FullTextOperator = FullTextOperator.OR,
    ):
        if boosts is not None and len(boosts) != len(columns):
            raise ValueError(f"{len(boosts)} boosts for {len(columns)} columns")
        self._inner = {
            "multi_match": {"query": query, "columns": columns, "boost": boosts, "operator": operator.value.title()}
        }

    def query_type(self) -> FullTextQueryType:
        """MULTI_MATCH."""
        return FullTextQueryType.MULTI_MATCH


class BooleanQuery(FullTextQuery):
    """Several queries, each of which should, must or must not be met.

    Parameters
    ----------
    queries : list of (Occur, FullTextQuery)
    """

    def __init__(self, queries: list[tuple[Occur, FullTextQuery]]):
        parts: dict[str, list[Any]] = {occur.value.lower(): [] for occur in Occur}
        for occur, query in queries:
            parts[occur.value.lower()].append(query.inner)
        self._inner = {"boolean": parts}

    def query_type(self) -> FullTextQueryType:
        """BOOLEAN."""
        return FullTextQueryType.BOOLEAN


__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
]
