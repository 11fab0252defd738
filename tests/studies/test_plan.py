"""Plans are read whole, or refused with a sentence that names the place."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from studies.cells import expand
from studies.plan import PlanError, Remark, load_plan
from tests.studies.conftest import PLAN


def test_a_plan_is_read(plan):
    assert plan.name == "small"
    assert plan.reference == "CTBN"
    assert [data.name for data in plan.datasets] == ["digit_traits"]
    assert plan.datasets[0].protocol.train == 60
    assert [method.steps for method in plan.methods] == [("StandardScaler",)] * 2


def test_the_quick_form_replaces_tables(write_plan):
    quick = load_plan(write_plan(), quick=True)
    assert quick.name == "small-quick"
    assert quick.datasets[0].protocol.splits == 2
    assert [method.name for method in quick.methods] == ["BR", "CTBN"]


def test_published_figures_lie_beside_the_plan(write_plan, tmp_path):
    path = write_plan()
    (tmp_path / "small.csv").write_text(
        "table,measure,dataset,method,value\n2,exact_match,digit_traits,BR,0.5\n"
    )
    (figure,) = load_plan(path).figures
    assert (figure.table, figure.method, figure.value) == ("2", "BR", 0.5)


CLAIM = '[[claims]]\ntext = "t"\nmethod = "CTBN"\nover = ["BR"]\nmeasures = ["exact_match"]\n'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title =", "tilte ="), "unknown field `tilte`"),
        (('kind = "random"', 'kind = "rundom"'), r"'rundom' - at `\$.protocol.kind`"),
        (("train = 60\n", ""), "give the sizes train and test"),
        (('"exact_match", "log', '"exact", "log'), "no measure 'exact'; choose from exact_match"),
        (('reference = "CTBN"', 'reference = "X"'), "'X'; choose from BR, CTBN"),
        (('model = "BinaryRelevance"\n', ""), "method 'BR': .* missing required field `model`"),
        (('name = "digit_traits"\n', ""), r"missing required field `name` - at `\$.datasets\[0\]`"),
        (("[[datasets]]", "[[datasets"), "is not TOML"),
        (("splits = 3", "slpits = 3"), "unknown field `slpits`"),
        (("splits = 3", "splits = 99999999999999999999"), r"\$.protocol.splits"),
        (("splits = 3", f"splits = {'9' * 5000}"), "Exceeds the limit"),
        (("splits = 3", "splits = 0"), r">= 1 - at `\$.protocol.splits`"),
        (("splits = 3", "splits = 3.5"), r"\$.protocol.splits"),
        (("splits = 3", "splits = true"), r"\$.protocol.splits"),
        (("train = 60", "train = [60]"), r"\$.protocol.train"),
        (("train = 60", "train = nan"), r"\$.protocol.train"),
        (('title = "Small"', "title = 5"), r"\$.title"),
        (('model = "BinaryRelevance"', "model = 1979-05-27"), r"method 'BR': .*\$.model"),
        (('name = "digit_traits"', "name = 7"), r"\$.datasets\[0\]"),
        (("[quick]", CLAIM.replace('"BR"', '"X"') + "[quick]"), "no method .*'X'"),
        (("[quick]", CLAIM + 'datasets = ["moon"]\n[quick]'), "no data set .*'moon'"),
        (("[quick]", CLAIM.replace("exact_match", "x") + "[quick]"), "no measure .*'x'"),
        (("[quick]", CLAIM + "faster = 4\n[quick]"), "measures or faster"),
        (("[quick]", CLAIM + "above = 0.5\n[quick]"), "over, above or growth"),
    ],
)
def test_mistakes_are_named(write_plan, change, message):
    with pytest.raises(PlanError, match=message):
        load_plan(write_plan(PLAN.replace(*change, 1)))


def test_a_missing_plan_lists_those_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlanError, match=r"There are: .*demo"):
        load_plan("nothing")
    plan = load_plan("demo", quick=True)
    assert plan.is_quick
    assert not load_plan("demo").is_quick
    assert [data.name for data in plan.datasets] == ["digit_traits"]


def test_claims_of_speed_and_of_a_level(write_plan):
    speed = CLAIM.replace('measures = ["exact_match"]', "faster = 4")
    level = CLAIM.replace('over = ["BR"]', "above = 0.5")
    faster, above = load_plan(write_plan(PLAN + speed + level)).claims
    assert (faster.faster, faster.measures) == (4, ())
    assert (above.over, above.above) == ((), 0.5)


@pytest.mark.parametrize("key", ["moon", "BR/moon", "BR/digit_traits", "BR/BR"])
def test_remarks_speak_of_figures_the_plan_can_have(write_plan, key):
    with pytest.raises(PlanError, match="remarks has the key"):
        load_plan(write_plan(PLAN + f'[remarks]\n"{key}" = {{ cause = "why" }}\n'))


def test_the_nearest_remark_is_taken(write_plan):
    keys = [
        "digit_traits/BR/exact_match",
        "digit_traits/BR",
        "digit_traits/exact_match",
        "BR/exact_match",
        "digit_traits",
        "BR",
        "exact_match",
    ]
    plan = load_plan(
        write_plan(PLAN + "[remarks]\n" + "".join(f'"{k}" = {{ cause = "why" }}\n' for k in keys))
    )
    for position, key in enumerate(keys):
        some = replace(plan, remarks=dict.fromkeys(keys[position:], Remark("why")))
        assert some.remark_key("exact_match", "digit_traits", "BR") == key
    assert plan.remark_key("micro_f1", "digit_traits", "BR") == "digit_traits/BR"
    assert replace(plan, remarks={}).remark_key("exact_match", "digit_traits", "BR") is None


def test_a_remark_is_a_cause_and_the_cells_that_test_it(write_plan):
    text = PLAN + '[remarks]\n"CTBN" = { kind = "data", cause = "a", study = "b", method = "c" }'
    assert load_plan(write_plan(text)).remarks == {"CTBN": Remark("a", "data", "b", method="c")}
    with pytest.raises(PlanError, match="'odd'"):
        load_plan(write_plan(text.replace('"data"', '"odd"')))
    with pytest.raises(PlanError, match="missing required field `cause`"):
        load_plan(write_plan(text.replace('cause = "a", ', "")))


def test_print_may_be_named_and_compared_with_another_measure(write_plan, tmp_path):
    named = 'figures = "print.csv"\nprinted_as = { macro_f1 = "exact_match" }\n' + PLAN
    with pytest.raises(PlanError, match=r"figures names 'print\.csv', which is not beside"):
        load_plan(write_plan(named))
    (tmp_path / "print.csv").write_text(
        "table,measure,dataset,method,value,mark\n5,macro_f1,digit_traits,BR,0.5,+\n"
    )
    (figure,) = load_plan(write_plan(named)).figures
    assert (figure.measure, figure.mark) == ("exact_match", "+")
    with pytest.raises(PlanError, match=r"in printed_as. 'micro_f1'"):
        load_plan(write_plan(named.replace('"exact_match" }', '"micro_f1" }')))
    (tmp_path / "print.csv").write_text(
        "table,measure,dataset,method,value,mark\n5,macro_f1,digit_traits,BR,0.5,*\n"
    )
    with pytest.raises(PlanError, match="line 2"):
        load_plan(write_plan(named))


def test_printed_wins_are_three_counts_of_a_measure_and_a_method(write_plan):
    text = PLAN + "[win_tie_loss.exact_match]\nBR = [9, 1, 0]\n"
    assert load_plan(write_plan(text)).win_tie_loss == {"exact_match": {"BR": (9, 1, 0)}}
    for wrong in (("BR = [9, 1, 0]", "BR = [9, 1]"), ("BR =", "X ="), ("exact_match]", "x]")):
        with pytest.raises(PlanError, match="win_tie_loss"):
            load_plan(write_plan(text.replace(*wrong)))


def test_printed_sizes_have_known_names(write_plan):
    text = PLAN.replace('"digit_traits"', '"digit_traits"\nprinted = { rows = 1797 }')
    assert load_plan(write_plan(text)).datasets[0].printed == {"rows": 1797}
    with pytest.raises(PlanError, match="'raws'"):
        load_plan(write_plan(text.replace("rows =", "raws =")))


def test_sizes_in_rows_stay_whole_numbers(write_plan):
    """A size of 60.0 rows would be a share of them."""
    text = PLAN.replace('"digit_traits"', '"digit_traits"\ntrain = 50\ntest = 0.25')
    protocol = load_plan(write_plan(text)).datasets[0].protocol
    assert (protocol.train, type(protocol.train), protocol.test) == (50, int, 0.25)


def test_steps_may_differ_by_data_set(write_plan):
    text = PLAN.replace("cv = 3", 'cv = 3\non = { digit_traits = { steps = ["MinMaxScaler"] } }')
    cells = expand(load_plan(write_plan(text)))
    steps = {cell.method: cell.steps for cell in cells}
    assert steps == {"BR": ("StandardScaler",), "CTBN": ("MinMaxScaler",)}
    assert all("steps" not in cell.model for cell in cells)


def test_some_of_a_plan(plan):
    assert [method.name for method in plan.only(methods=["BR"]).methods] == ["BR"]
    with pytest.raises(PlanError, match="no data set 'x'; choose from digit_traits"):
        plan.only(["x"])


def test_cells_are_data_sets_by_methods_by_splits(plan):
    cells = expand(plan)
    assert len(cells) == 2 * 3
    assert len({cell.key for cell in cells}) == len(cells)
    assert [cell.key for cell in expand(plan)] == [cell.key for cell in cells]


def test_the_key_depends_on_what_is_computed_not_on_its_name(write_plan):
    keys = [cell.key for cell in expand(load_plan(write_plan()))]
    renamed = load_plan(write_plan(PLAN.replace("[methods.BR]", "[methods.LR]")))
    assert [cell.key for cell in expand(renamed)] == keys
    changed = load_plan(write_plan(PLAN.replace("C = 1.0", "C = 2.0", 1)))
    same = [a == b.key for a, b in zip(keys, expand(changed), strict=True)]
    assert same == [False] * 3 + [True] * 3


def test_parameters_and_gaps_by_data_set(write_plan):
    text = PLAN.replace("cv = 3", "cv = 3\non = { digit_traits = { C = 5.0 } }").replace(
        "C = 1.0\n\n", 'C = 1.0\nwithout = { digit_traits = "no reason" }\n\n', 1
    )
    cells = expand(load_plan(write_plan(text)))
    assert {cell.method for cell in cells} == {"CTBN"}
    assert {cell.model["C"] for cell in cells} == {5.0}


def test_more_random_splits_keep_the_first_ones(write_plan):
    few = [cell.key for cell in expand(load_plan(write_plan()))]
    more = [cell.key for cell in expand(load_plan(write_plan(PLAN.replace("= 3", "= 5", 1))))]
    assert set(few) < set(more)
    folds = PLAN.replace('kind = "random"', 'kind = "kfold"')
    three = {cell.key for cell in expand(load_plan(write_plan(folds)))}
    five = {cell.key for cell in expand(load_plan(write_plan(folds.replace("= 3", "= 5", 1))))}
    assert not three & five


def test_the_first_folds_of_a_data_set_or_of_a_method_there(write_plan):
    """They are the cells of the whole study: running the rest later adds to them."""
    folds = PLAN.replace('kind = "random"', 'kind = "kfold"')

    def run(text):
        cells = expand(load_plan(write_plan(text)))
        return {(c.method, c.split): c for c in cells if c.protocol.kind == "kfold"}

    every = run(folds)
    of_data = folds.replace('"digit_traits"', '"digit_traits"\nfirst = 2')
    of_method = of_data.replace("cv = 3", "cv = 3\non = { digit_traits = { first = 1 } }")
    for text, splits in ((of_data, {"BR": 2, "CTBN": 2}), (of_method, {"BR": 2, "CTBN": 1})):
        cells = run(text)
        assert list(cells) == [(m, i) for m, n in splits.items() for i in range(n)]
        assert all(cell.key == every[place].key for place, cell in cells.items())
    for wrong in ("first = 4", "first = 0"):
        with pytest.raises(PlanError, match="first"):
            load_plan(write_plan(of_data.replace("first = 2", wrong)))
    for wrong in ("4", "0", "1.5", "true", '"1"'):
        with pytest.raises(PlanError, match=r"method 'CTBN' runs the first .* of 3 splits"):
            load_plan(write_plan(of_method.replace("first = 1", f"first = {wrong}")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "missing required field"),
        ("table,measure,dataset,method,value\n1,2\n", "missing required field"),
        ("table,measure,dataset,method,value\n1,2,3,4,five\n", "value"),
        ("table,measure,dataset,method,value\n1,2,3,4,inf\n", "the value inf"),
    ],
)
def test_a_stray_file_beside_the_plan(write_plan, tmp_path, text, message):
    path = write_plan()
    (tmp_path / "small.csv").write_text(text)
    with pytest.raises(PlanError, match=rf"small\.csv, line.*{message}"):
        load_plan(path)
