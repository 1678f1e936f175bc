"""The pretended device itself: it refuses what a device refuses, and sees what a device is asked to do."""

from __future__ import annotations

import pytest
import torch


def test_tensors_say_where_they_are_and_compute(device):
    a = torch.arange(6, device="cuda").reshape(2, 3)
    b = torch.ones(3, device="cuda:0")
    assert a.is_cuda
    assert str(a.device) == str(b.device) == "cuda:0"
    assert (a + b).cpu().tolist() == [[1, 2, 3], [4, 5, 6]]
    a[0] = 7
    a[:, 1:].add_(1)
    assert a.cpu().tolist() == [[7, 8, 8], [3, 5, 6]]
    assert isinstance(torch.empty(2).to("cuda:1").cpu(), torch.Tensor)


def test_devices_do_not_mix(device):
    here, there = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"same device, found .'cuda:0', 'cuda:1'. in add"):
        here + there
    with pytest.raises(RuntimeError, match=r"same device, found .'cpu', 'cuda:0'. in mul"):
        here * torch.ones(3)
    with pytest.raises(RuntimeError, match=r"same device, found .'cpu', 'cuda:0'. in index_select"):
        here.index_select(0, torch.tensor([1]))
    assert (here * torch.tensor(2.0)).cpu().tolist() == [2, 2, 2]  # a number is no stray tensor
    with pytest.raises(RuntimeError, match="not supported"):
        here.numpy()


def test_launches_are_counted_and_views_are_none(device):
    a = torch.zeros(4, 4, device="cuda")
    with device.counted() as record:
        a[1:].t().unsqueeze(0).expand(2, -1, -1)
        torch.empty(3, device="cuda")
        a.reshape(16).view(2, 8)
        assert not record.launches
        a.t().reshape(16)  # a copy on the device
        a[0].fill_(1)
        a @ a
    assert record.launches.total() == 3
    assert not record.waits
    assert not record.copies


def test_copies_have_a_size_and_a_direction(device):
    host = torch.zeros(100, dtype=torch.int64)
    with device.counted() as record:
        there = host.to("cuda")
        torch.tensor([1, 2, 3], device="cuda")
        there[:10].to("cpu", torch.float32)
    assert [(one.up, one.bytes, one.pinned) for one in record.copies] == [
        (True, 800, False), (True, 24, False), (False, 40, False),
    ]  # fmt: skip
    assert record.launches == {"_to_copy": 1}
    assert [one.line for one in record.copies] == ["outside of the library"] * 3


def test_every_kind_of_wait_is_seen(device):
    a = torch.arange(4, device="cuda") * 1
    for cause in (
        lambda: a.sum().item(),
        lambda: bool(a.any()),
        lambda: a.nonzero(),
        lambda: a[a > 1],
        lambda: torch.masked_select(a, a > 1),
        lambda: a + torch.tensor([1, 2, 3, 4], device="cuda"),  # from pageable memory
        lambda: a + torch.tensor([1, 2, 3, 4]).pin_memory().to("cuda"),  # the copy is waited for
        lambda: torch.equal(a, a * 1),
        lambda: a.index_put_((a > 1,), a[0]),
    ):
        a.add_(0)
        with device.counted() as record:
            cause()
        assert len(record.hidden) == 1, record
    for cause in (a.cpu, a.tolist):
        with device.counted() as record:
            cause()
        assert len(record.waits) == 1
        assert not record.hidden
    with device.counted() as record:
        a + torch.tensor([1, 2, 3, 4]).pin_memory().to("cuda", non_blocking=True)
        a[torch.zeros(2, dtype=torch.int64, device="cuda")]
        torch.where(a > 1, a, 0)
    assert not record.waits


def test_the_line_is_that_of_the_library(device):
    from constrained.models.logits import DeviceLogits

    logits = DeviceLogits(torch.ones(2, 3, device="cuda"))
    with device.counted() as record:
        logits.row(1)
    assert record.copies[0].line.startswith("constrained/models/logits.py:")


def test_the_likeliest_rows_of_trees_come_in_one_copy(device):
    """64 rows of 4,096 logits are the bytes of one copy: of two trees of 40 places the first 32, in one piece."""
    from constrained.models.logits import DeviceLogits

    rows = torch.arange(80.0)[:, None].expand(80, 4096).contiguous()
    logits = DeviceLogits(rows.to("cuda"), [40, 40])
    with device.counted() as record:
        assert all(logits.row(place)[0] == place for place in (40, 0, 31, 71))
        assert [copy.bytes for copy in record.downloads] == [64 * 4096 * 4]
        assert all(logits.row(place)[-1] == place for place in (32, 79, 32))
    assert [copy.bytes for copy in record.downloads[1:]] == [4096 * 4] * 2
    few = DeviceLogits(rows[:3].to(torch.bfloat16).to("cuda"), [3])
    with device.counted() as record:
        assert [few.row(place)[0] for place in range(3)] == [0, 1, 2]
    assert few.row(0).dtype == "float32"
    assert [copy.bytes for copy in record.downloads] == [3 * 4096 * 2]


def test_what_was_not_waited_for_is_not_there(device):
    target = torch.zeros(3).pin_memory()
    target.copy_(torch.ones(3, device="cuda"), non_blocking=True)
    assert target.tolist() != [1, 1, 1]
    done = torch.cuda.Event()
    done.record()
    assert not done.query()
    done.synchronize()
    assert done.query()
    assert target.tolist() == [1, 1, 1]


def test_pinned_memory_must_stay_until_it_is_read(device):
    source = torch.zeros(3).pin_memory()
    there = source.to("cuda", non_blocking=True)
    source.fill_(1)
    with pytest.raises(RuntimeError, match="pinned memory was changed"):
        there.cpu()


def test_events_measure_launches(device):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    a = torch.ones(3, device="cuda") + 1
    end.record()
    with pytest.raises(RuntimeError, match="not done"):
        begin.elapsed_time(end)
    a.cpu()
    assert begin.elapsed_time(end) == 0.002
