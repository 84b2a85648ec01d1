#!/usr/bin/env python3
"""Events of dp_accounting 0.6.0 as JSON, each with its price, and back.

    pip install dp-accounting==0.6.0
    ./dp_events.py write > dp_events.json
    ./dp_events.py check < exported.jsonl    # one event per line, from dp_event::to_json

The price is that of the library's own RDP accountant with its default orders at delta 1e-6, or null.
"""
import json
import sys

import dp_accounting as dp
from dp_accounting import dp_event as events


def plain(value):
    if hasattr(value, "_asdict"):
        return {key: plain(each) for key, each in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def event(value):
    """The inverse, through the constructors of the library."""
    if isinstance(value, dict):
        fields = {key: event(each) for key, each in value.items() if key not in ("module_name", "class_name")}
        return getattr(events, value["class_name"])(**fields)
    return [event(each) for each in value] if isinstance(value, list) else value


def price(each, relation):
    try:
        return dp.rdp.RdpAccountant(neighboring_relation=relation).compose(each).get_epsilon(1e-6)
    except Exception:
        return None


EVENTS = [
    events.NoOpDpEvent(),
    events.NonPrivateDpEvent(),
    events.GaussianDpEvent(1.1),
    events.LaplaceDpEvent(4.0),
    events.DiscreteLaplaceDpEvent(noise_parameter=0.3, sensitivity=2),
    events.RandomizedResponseDpEvent(noise_parameter=0.5, num_buckets=8),
    events.RandomizedResponseDpEvent(noise_parameter=0.0, num_buckets=2),
    events.ZCDpEvent(rho=0.1),
    events.SelfComposedDpEvent(events.PoissonSampledDpEvent(256 / 60000, events.GaussianDpEvent(1.1)), 14063),
    events.ComposedDpEvent([events.SelfComposedDpEvent(events.LaplaceDpEvent(10.0), 3), events.GaussianDpEvent(5.0)]),
    events.PoissonSampledDpEvent(0.1, events.ComposedDpEvent([events.GaussianDpEvent(3.0), events.GaussianDpEvent(4.0)])),
    events.SingleEpochTreeAggregationDpEvent(1.13, 1600),
    events.SingleEpochTreeAggregationDpEvent(8.83, [16, 1600, 3]),
]
REPLACED = [events.SampledWithoutReplacementDpEvent(10000, 100, events.GaussianDpEvent(2.0))]
WITHOUT_EVENT = [
    events.UnsupportedDpEvent(),
    events.SampledWithReplacementDpEvent(100, 10, events.GaussianDpEvent(1.0)),
    events.RepeatAndSelectDpEvent(events.GaussianDpEvent(1.0), 2.0, 1.0),
    events.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]),
    events.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    events.ZCDpEvent(rho=0.1, xi=0.2),
]

if sys.argv[1] == "write":
    add, replace = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE
    rows = [(each, "add-or-remove-unit", price(each, add)) for each in EVENTS]
    rows += [(each, "replace-unit", price(each, replace)) for each in REPLACED]
    rows += [(each, "none", None) for each in WITHOUT_EVENT]
    lines = []
    for each, neighbors, epsilon in rows:
        if epsilon == float("inf"):
            epsilon = "infinite"
        row = {"event": plain(each.to_named_tuple()), "neighbors": neighbors, "epsilon": epsilon}
        lines.append(json.dumps(row))
    print("[\n" + ",\n".join(lines) + "\n]")
else:
    for line in sys.stdin:
        value = json.loads(line)
        assert plain(event(value).to_named_tuple()) == value, line
        print("read", value["class_name"])
