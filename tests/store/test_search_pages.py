"""A page of the search index returns the postings of each term that is asked for, if the page has
the term. Postings say which messages contain a term."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.store.search_pages import (
    decode_page,
    encode_page,
    encode_small_page,
    postings_of,
)

TERMS = st.lists(st.text("ab@橘猫", min_size=1, max_size=4), unique=True, max_size=12)


@given(has=TERMS, asked=TERMS, size=st.integers(1, 12))
def test_the_terms_of_a_page_are_found_and_no_others(
    has: list[str], asked: list[str], size: int
) -> None:
    sizes = np.array([size + number % 3 for number in range(len(has))], np.int64)
    page = encode_page(has, sizes, np.arange(int(sizes.sum()), dtype=np.uint32))
    whole = decode_page(page)
    found = postings_of(page, asked)
    assert set(found) == set(has) & set(asked)
    for term, postings in found.items():
        assert postings.tolist() == whole[term].tolist()


def test_a_term_is_found_although_the_number_after_it_reads_like_a_line_feed() -> None:
    postings = np.arange(10, dtype=np.uint32)
    page = encode_page(["kiln"], np.array([10], np.int64), postings)
    assert postings_of(page, ["kiln"])["kiln"].tolist() == postings.tolist()
    assert postings_of(page, ["kil", "kilns", "iln"]) == {}


@given(st.dictionaries(st.text("ab@橘猫", min_size=1), st.lists(st.integers(0, 2**32 - 1))))
def test_a_page_is_encoded_with_and_without_numpy_into_the_same_bytes(
    terms: dict[str, list[int]],
) -> None:
    sizes = np.array([len(each) for each in terms.values()], np.int64)
    postings = np.array([each for some in terms.values() for each in some], np.uint32)
    assert encode_small_page(terms) == encode_page([*terms], sizes, postings)
