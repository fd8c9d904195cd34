"""A user's own trace file: what is accepted, and what a bad one is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base.errors import UserError

from testbed.traffic.trace import TraceError, load_gradients, load_trace
from tests.support.damaged_zip import DAMAGES, damage

GOOD = """\
## a remark
# name: mine
# values: 1290
# times: measured
# hardware: RTX 3090
# source: our profiler

name,shape,values,forward_ns,backward_ns
conv1,16x3x3x3+16,448,52000,61000
fc,,842,8000,15000
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return path


def message(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    assert isinstance(caught.value, UserError)
    return str(caught.value)


def test_good_file(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    trace = load_trace("mine.csv", folder=tmp_path)
    assert (trace.name, trace.title, trace.values) == ("mine", "mine", 1290)
    assert (trace.forward_ns, trace.backward_ns) == (60_000, 76_000)
    assert trace.layers[0].shape == ((16, 3, 3, 3), (16,))
    assert trace.sources == ("our profiler",) and trace.gradients is None


@pytest.mark.parametrize("text", [GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD, GOOD.rstrip()])
def test_other_editors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_bytes(text.encode())
    assert load_trace(path).values == 1290


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("52000", "fast", "line 9, forward_ns: found 'fast'; write a whole number of nanoseconds"),
        ("61000", "-1", "line 9, backward_ns: found '-1'; write a whole number"),
        ("61000", "6.1", "line 9, backward_ns: found '6.1'"),
        ("61000", "9" * 17, "from 0 to 1000000000000000"),
        (",842,", ",0,", "line 10, values: found '0'; write a whole number of values from 1"),
        (",842,", ",841,", "line 3, values: found '1290'; the layers below have 1289"),
        (",448,", ",449,", "line 9, values: found '449'; shape 16x3x3x3+16 has 448 values"),
        ("16x3x3x3+16", "16*3", "line 9, shape: found '16*3'; write e.g. 64x3x7x7+64"),
        ("fc,", "conv1,", "line 10, name: found 'conv1'; already used in line 9; rename"),
        ("fc,", "f c,", "line 10, name: found 'f c'"),
        (",15000", "", "line 10, layer: found 'fc,,842,8000'; 4 cells instead of the 5"),
        ("# name: mine\n", "", "header has no name; add a line '# name: ...'"),
        ("# source: our profiler\n", "", "header has no source"),
        ("# source: our profiler", "# source:", "line 6, source: found ''; write a value"),
        ("# hardware", "# hardwear", "line 5, hardwear: found 'RTX 3090'; did you mean hardware?"),
        ("measured", "guessed", "line 4, times: found 'guessed'; write one of published, computed"),
        (
            "# times",
            "# name: again\n# times",
            "line 4, name: found 'again'; already given in line 2",
        ),
        ("# times: measured", "# measured", "line 4, header: found '# measured'; write '# key: v"),
        ("# values: 1290", "# values: many", "line 3, values: found 'many'"),
        (
            "# times",
            "# batch: 0\n# times",
            "line 4, batch: found '0'; write a whole number of samp",
        ),
        ("# times", "# gradients: no.npz\n# times", "line 4, gradients: found 'no.npz'; name an"),
        ("shape,values", "values,shape", "line 8, columns: found 'name,values,shape"),
        ("name: mine", "name: my model", "line 2, name: found 'my model'; use letters"),
    ],
)
def test_bad_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    text = message(write(tmp_path, GOOD.replace(old, new, 1)))
    assert text.startswith(str(tmp_path / "mine.csv"))
    assert said in text


def test_all_errors_at_once(tmp_path: Path) -> None:
    bad = GOOD.replace("52000", "fast").replace("measured", "guessed").replace("fc,,842", "fc,,x")
    text = message(write(tmp_path, bad))
    assert [line.split(",")[0].strip() for line in text.splitlines()[1:]] == [
        "line 9",
        "line 10",
        "line 4",
    ]


def test_many_errors_are_cut_short(tmp_path: Path) -> None:
    rows = "".join(f"l{n},,x,1,1\n" for n in range(100))
    text = message(write(tmp_path, GOOD + rows))
    assert len(text.splitlines()) == 22 and text.endswith("... and 80 more")


TWO_GPUS = """\
# name: mine
# values: 1290
# times: measured
# times (a100): computed
# hardware (v100): V100
# hardware (a100): A100
# batch (a100): 64
# source: our profiler
name,shape,values,v100.forward_ns,v100.backward_ns,a100.forward_ns,a100.backward_ns,a100.update_ns
conv1,,448,52,61,20,30,4
fc,,842,8,15,6,7,5
"""


def test_times_of_the_update(tmp_path: Path) -> None:
    text = GOOD.replace("backward_ns\n", "backward_ns,update_ns\n")
    text = text.replace("61000", "61000,700").replace("15000", "15000,80")
    trace = load_trace(write(tmp_path, text))
    assert [layer.update_ns for layer in trace.layers] == [700, 80]
    assert (trace.update_ns, trace.compute_ns) == (780, 136_780)
    assert trace.scaled(1, 0.1).update_ns == 78
    assert load_trace(write(tmp_path, GOOD)).update_ns == 0


def test_times_of_several_gpus(tmp_path: Path) -> None:
    path = write(tmp_path, TWO_GPUS)
    first, second = load_trace(path), load_trace(path, gpu="a100")
    assert first == load_trace(path, gpu="v100")
    assert first.gpus == second.gpus == ("v100", "a100")
    assert (first.gpu, first.times, first.hardware, first.batch) == (
        "v100",
        "measured",
        "V100",
        None,
    )
    assert (second.gpu, second.times, second.batch) == ("a100", "computed", 64)
    times = [(each.forward_ns, each.backward_ns, each.update_ns) for each in second.layers]
    assert times == [(20, 30, 4), (6, 7, 5)]
    assert (first.compute_ns, second.compute_ns) == (136, 72)
    assert load_trace(write(tmp_path, GOOD), gpu="a100").gpu is None
    with pytest.raises(
        TraceError, match=r"no compute times of a100_v100_batch; it has those of v1"
    ):
        load_trace(write(tmp_path, TWO_GPUS), gpu="a100_v100_batch")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("v100.backward_ns,", "", "line 9, columns: found 'name,shape,values,v100.forward_ns,a100"),
        (
            "a100.update_ns",
            "update_ns",
            "for each of several GPUs, as v100.forward_ns (GPUs: v100,",
        ),
        (",a100.forward", ",h100.forward", "line 9, columns: found"),
        ("times (a100)", "times (h100)", "line 4, times: found '(h100)'; did you mean"),
        ("# batch (a100): 64", "# batch (a100): 0", "line 7, batch: found '0'; write a whole"),
        ("# batch (a100)", "# title (a100)", "line 7, title: found '(a100)'; take it out; keys of"),
        (
            "batch (a100)",
            "batch (a100_v100_batch)",
            "there are no columns with its times; add them",
        ),
        (
            "# hardware (a100): A100\n",
            "",
            "header has no hardware (a100); add a line '# hardware (",
        ),
        (",4\n", ",x\n", "line 10, a100.update_ns: found 'x'; write a whole number of nanoseconds"),
        (
            "15,6,7,5",
            "15,6,7",
            "line 11, layer: found 'fc,,842,8,15,6,7'; 7 cells instead of the 8",
        ),
    ],
)
def test_bad_file_with_several_gpus(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TWO_GPUS
    assert said in message(write(tmp_path, TWO_GPUS.replace(old, new, 1)))


def test_no_layers(tmp_path: Path) -> None:
    assert "no layers" in message(write(tmp_path, GOOD.split("conv1")[0]))
    assert "no layers" in message(write(tmp_path, ""))


def test_unreadable(tmp_path: Path) -> None:
    assert "no such trace file" in message(tmp_path / "absent.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    assert "not UTF-8 text" in message(binary)
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert "can't be read: Is a directory" in message(folder)


def test_unknown_model() -> None:
    with pytest.raises(TraceError) as caught:
        load_trace("resnet5O")
    text = str(caught.value)
    assert text.startswith("unknown model 'resnet5O'; did you mean resnet50?")
    assert "vgg16" in text and "ending in .csv" in text


@given(st.text(max_size=300))
def test_any_text_is_refused_politely(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("t") / "any.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    message(path)


@given(st.integers(0, len(GOOD) - 1), st.characters(codec="utf-8"))
def test_any_changed_character(
    tmp_path_factory: pytest.TempPathFactory, place: int, letter: str
) -> None:
    """Either a usable trace or a TraceError; nothing else escapes."""
    path = tmp_path_factory.mktemp("t") / "any.csv"
    path.write_bytes((GOOD[:place] + letter + GOOD[place + 1 :]).encode())
    try:
        trace = load_trace(path)
    except TraceError:
        return
    assert trace.values == sum(layer.full_values for layer in trace.layers)


def with_gradients(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "mine.npz", **arrays)
    return write(folder, GOOD.replace("# times", "# gradients: mine.npz\n# times"))


def good_arrays() -> dict[str, np.ndarray]:
    return {
        "gradients": np.ones((2, 3, 1290), np.float32),
        "iterations": np.arange(3),
        "loss": np.ones((2, 3), np.float32),
    }


def test_own_gradients(tmp_path: Path) -> None:
    trace = load_trace(with_gradients(tmp_path, **good_arrays()))
    assert load_gradients(trace).tensor(1, 2, 1).shape == (842,)


def test_bad_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        ({"gradients": np.ones((2, 3, 1290))}, "gradients are float64 (2, 3, 1290)"),
        (
            {"gradients": np.ones((2, 3, 5), np.float32)},
            "needs float32 (workers, iterations, 1290)",
        ),
        ({"gradients": np.full((2, 3, 1290), np.nan, np.float32)}, "not finite"),
        ({"gradients": np.ones((0, 3, 1290), np.float32)}, "gradients are float32 (0, 3, 1290)"),
        ({"loss": np.ones(3, np.float32)}, "do not fit"),
        ({"gradients": np.array([{}], object)}, "not a readable .npz"),
    ]
    for changed, said in cases:
        path = with_gradients(tmp_path, **(good_arrays() | changed))
        with pytest.raises(TraceError) as caught:
            load_gradients(load_trace(path))
        assert said in str(caught.value)
    arrays = good_arrays()
    del arrays["loss"]
    with pytest.raises(TraceError, match="must hold gradients, iterations, loss"):
        load_gradients(load_trace(with_gradients(tmp_path, **arrays)))
    (tmp_path / "mine.npz").write_bytes(b"no archive")
    with pytest.raises(TraceError, match="not a readable .npz"):
        load_gradients(load_trace(tmp_path / "mine.csv"))
    np.savez_compressed(tmp_path / "mine.npz", **good_arrays())
    packed = (tmp_path / "mine.npz").stat().st_size
    monkeypatch.setattr("testbed.traffic.trace.MAX_ARRAYS", packed + 1000)  # of what it unpacks to
    with pytest.raises(TraceError, match="larger than 0 MiB"):
        load_gradients(load_trace(tmp_path / "mine.csv"))


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_gradients(tmp_path: Path, how: str) -> None:
    path = with_gradients(tmp_path, **good_arrays())
    damage(tmp_path / "mine.npz", how)
    with pytest.raises(TraceError, match="mine.npz: not a readable .npz"):
        load_gradients(load_trace(path))


def test_model_without_gradients() -> None:
    with pytest.raises(TraceError, match="vgg16 has no float gradients; use one that has"):
        load_gradients(load_trace("vgg16"))
