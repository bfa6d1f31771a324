"""The text of a loss: what it means, that it survives a round trip, and what is said about a wrong one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from pars.errors import UserError
from pars.losses import BASE_LOSSES, Loss, gce, mae, nce, nfl, parse, rce, sce
from pars.losses.spec import PARAMETER_CHECKS, Term, default_parameters

LOGITS = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(8) % 4


def test_texts_mean_what_they_say() -> None:
    expected = {
        "nce": nce(LOGITS, LABELS),
        "10*nce+mae": 10 * nce(LOGITS, LABELS) + mae(LOGITS, LABELS),
        "gce(q=0.3)": gce(LOGITS, LABELS, q=0.3),
        "sce(alpha=0.2,beta=3,A=-5)": sce(LOGITS, LABELS, alpha=0.2, beta=3, A=-5),
        "0.5*nfl(gamma=0.9)+rce(A=-9.21)": 0.5 * nfl(LOGITS, LABELS, gamma=0.9) + rce(LOGITS, LABELS, A=-9.21),
        " 1e+1 * nce + .1*rce ( A = -4 ) ": 10 * nce(LOGITS, LABELS) + 0.1 * rce(LOGITS, LABELS, A=-4),
        "nce+3*mae": nce(LOGITS, LABELS) + 3 * mae(LOGITS, LABELS),
        "mae()": mae(LOGITS, LABELS),
    }
    for text, values in expected.items():
        assert_allclose(parse(text)(LOGITS, LABELS), values, rtol=1e-6, err_msg=text)


def test_equal_losses_have_one_text() -> None:
    assert str(parse("sce( A=-4 )")) == str(parse("1.0*sce")) == "sce(alpha=0.1,beta=1,A=-4)"
    assert parse("gce") == parse("gce(q=0.7)") != parse("gce(q=0.6)")
    assert len({parse("gce"), parse("1*gce(q=.7)")}) == 1


weights = st.floats(0, 1e20)
terms = st.one_of(
    st.builds(Term, st.sampled_from(["ce", "mae", "nce"]), weights),
    st.builds(lambda w, q: Term("gce", w, (("q", q),)), weights, st.floats(1e-6, 1)),
    st.builds(lambda w, g: Term("nfl", w, (("gamma", g),)), weights, st.floats(0, 1e19)),
    st.builds(lambda a, A: Term("sce", 1.0, (("A", A), ("alpha", a))), weights, st.floats(-1e20, -1e-20)),
)


@given(loss=st.builds(Loss, st.lists(terms, min_size=1, max_size=4).map(tuple)))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_texts_survive_a_round_trip(loss: Loss) -> None:
    assert parse(str(loss)) == loss
    assert str(parse(str(loss))) == str(loss)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ncee+mae", r"no loss 'ncee'.*gce, imae, mae, nce"),
        ("gce(p=0.7)", r"gce has no parameter 'p'.*it has: q"),
        ("mae(q=1)", r"mae has no parameter 'q'; it has none"),
        ("gce(q=abc)", r"q must be a number, not 'abc'"),
        ("gce(q=2)", r"gce: q must be in \(0, 1\], not 2"),
        ("imae(T=-1)", r"imae: T must be a number from 0 to 40, not -1"),
        ("gce(0.7)", r"'0.7' is not of the form parameter=value"),
        ("sce(A=-4,A=-5)", r"given twice"),
        ("rce(A=nan)", r"A must be a finite number"),
        ("ten*nce", r"weight must be a number, not 'ten'"),
        ("*nce", r"weight must be a number, not ''"),
        ("-1*nce", r"nce: the weight must be a finite number >= 0, not -1"),
        ("nan*nce", r"weight must be a finite"),
        ("inf*nce", r"weight must be a finite"),
        ("nce+", r"cannot read ''.*ce, focal"),
        ("", r"cannot read ''"),
        ("nce mae", r"cannot read 'nce mae'"),
        ("gce(q=0.7", r"cannot read"),
        ("2*3*nce", r"cannot read"),
        ("nce-mae", r"cannot read"),
    ],
)
def test_a_wrong_text_is_explained(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(text)


def test_a_loss_without_terms_is_refused() -> None:
    with pytest.raises(UserError, match="at least one"):
        Loss(())


@pytest.mark.parametrize("name", BASE_LOSSES)
def test_every_registered_loss_works_from_its_bare_name(name: str) -> None:
    assert parse(name)(LOGITS, LABELS).shape == (8,)


@pytest.mark.parametrize("name", BASE_LOSSES)
@pytest.mark.parametrize("value", [-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, float("inf"), float("-inf"), float("nan")])
def test_a_text_is_refused_exactly_where_the_loss_itself_refuses(name: str, value: float) -> None:
    assert (name in PARAMETER_CHECKS) == bool(default_parameters(name))
    for parameter in default_parameters(name):
        refused = []
        for make in (
            lambda p=parameter: Term(name, 1.0, ((p, value),)),
            lambda p=parameter: BASE_LOSSES[name](LOGITS, LABELS, **{p: value}),
        ):
            try:
                make()
                refused.append(False)
            except (UserError, ValueError):
                refused.append(True)
        assert refused[0] == refused[1]
