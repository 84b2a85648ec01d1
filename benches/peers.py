#!/usr/bin/env python3
"""Measures other libraries on the tasks of `cargo xtask bench noise` and `cargo xtask bench accounting`.

usage: peers.py {noise|accounting}

Prints one JSON line for each library that this interpreter can import, and nothing for the others. The benchmark runs it
with every interpreter that DITHER_PEERS names (separated by colons; python3 by default), in the same run as its own
measurements, since the libraries do not agree on versions of what they depend on:

    dp-accounting==0.6.0 · prv-accountant==0.2.0 · autodp==0.2.3.1 with scipy<1.14 and numpy<2.3 · torch with
    opacus==1.6.0 · opendp==0.16.0 · diffprivlib==0.6.6 with scikit-learn<1.9

Times are minima of three runs of one thread, imports excluded.
"""

import importlib.metadata
import json
import os
import sys
import time
import warnings

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"
warnings.filterwarnings("ignore")


def best(run, enough=20.0):
    """The shortest of three runs and the last result; one run if it takes long."""
    times, result = [], None
    for _ in range(3):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
        if times[0] > enough:
            break
    return min(times), result


def say(package, case, seconds, **more):
    print(json.dumps({"tool": f"{package} {importlib.metadata.version(package)}", "case": case, "seconds": seconds, **more}), flush=True)


def noise():
    try:
        import numpy as np
    except ImportError:
        return

    def rate(package, case, draw, n):
        seconds, _ = best(lambda: draw(n))
        say(package, case, seconds, rate=n / seconds)

    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        domain = dp.vector_domain(dp.atom_domain(T=int))
        zeros = np.zeros(200_000, dtype=np.int32)
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=1024.0)
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1024.0)
        rate("opendp", "Laplace, width 2^10", lambda n: laplace(zeros), len(zeros))
        rate("opendp", "Gaussian, width 2^10", lambda n: gaussian(zeros), len(zeros))
    except ImportError:
        pass
    try:
        from diffprivlib import mechanisms

        geometric = mechanisms.Geometric(epsilon=1 / 1024, sensitivity=1)
        gaussian = mechanisms.GaussianDiscrete(epsilon=0.5, delta=1e-6, sensitivity=1)
        gaussian._scale = 1024.0
        rate("diffprivlib", "Laplace, width 2^10", lambda n: [geometric.randomise(0) for _ in range(n)], 100_000)
        rate("diffprivlib", "Gaussian, width 2^10", lambda n: [gaussian.randomise(0) for _ in range(n)], 20_000)
    except ImportError:
        pass


TRAINING = {"noise": 1.1, "rate": 256 / 60000, "steps": 14063, "delta": 1e-5}
STEEP = {"noise": 0.8, "rate": 0.01, "steps": 10000, "delta": 1e-6}
MIXED_DELTA = 1e-6
CALIBRATION = {"epsilon": 1.0, "delta": 1e-5, "rate": 0.01, "steps": 5000}


def mixed(np):
    """400 Laplace events, 400 Gaussian ones, and 200 different steps of training."""
    return (
        np.linspace(0.001, 0.01, 400),
        np.linspace(50, 200, 400),
        list(zip(np.linspace(1.0, 4.0, 200), np.linspace(0.001, 0.01, 200))),
    )


def accounting():
    try:
        import numpy as np
    except ImportError:
        return
    laplaces, gaussians, steps = mixed(np)

    def epsilon(package, case, how, run):
        seconds, value = best(run)
        low, value, high = value if isinstance(value, tuple) else (None, value, None)
        say(package, case, seconds, how=how, epsilon=float(value), lower=low and float(low), upper=high and float(high))

    try:
        import dp_accounting as dpa
        from dp_accounting import pld, rdp

        def training(noise, rate, steps, **_):
            return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise)), steps)

        plan = dpa.ComposedDpEvent(
            [dpa.LaplaceDpEvent(1 / e) for e in laplaces]
            + [dpa.GaussianDpEvent(s) for s in gaussians]
            + [dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(s)) for s, q in steps]
        )
        for how, make in (("PLD", pld.PLDAccountant), ("RDP", rdp.RdpAccountant)):
            for case, p in (("training", TRAINING), ("steep", STEEP)):
                epsilon("dp-accounting", case, how, lambda: make().compose(training(**p)).get_epsilon(p["delta"]))
            epsilon("dp-accounting", "mixed", how, lambda: make().compose(plan).get_epsilon(MIXED_DELTA))
            c = CALIBRATION
            seconds, value = best(
                lambda: dpa.calibrate_dp_mechanism(
                    make,
                    lambda s: training(s, c["rate"], c["steps"]),
                    c["epsilon"],
                    c["delta"],
                    dpa.ExplicitBracketInterval(0.3, 10.0),
                    tol=1e-6,
                )
            )
            say("dp-accounting", "calibration", seconds, how=how, noise=value)
    except ImportError:
        pass
    try:
        import prv_accountant as prv

        def bounds(prvs, counts, delta):
            accountant = prv.PRVAccountant(
                prvs=prvs, max_self_compositions=counts, eps_error=0.01, delta_error=delta / 1000
            )
            return accountant.compute_epsilon(delta, counts)

        for case, p in (("training", TRAINING), ("steep", STEEP)):
            step = prv.PoissonSubsampledGaussianMechanism(noise_multiplier=p["noise"], sampling_probability=p["rate"])
            epsilon("prv-accountant", case, "PRV", lambda: bounds([step], [p["steps"]], p["delta"]))
        plan = (
            [prv.LaplaceMechanism(mu=e) for e in laplaces]
            + [prv.GaussianMechanism(noise_multiplier=s) for s in gaussians]
            + [prv.PoissonSubsampledGaussianMechanism(noise_multiplier=s, sampling_probability=q) for s, q in steps]
        )
        epsilon("prv-accountant", "mixed", "PRV", lambda: bounds(plan, [1] * len(plan), MIXED_DELTA))
    except ImportError:
        pass
    try:
        from autodp.mechanism_zoo import GaussianMechanism, LaplaceMechanism
        from autodp.transformer_zoo import AmplificationBySampling, Composition

        def step(noise, rate):
            gaussian = GaussianMechanism(noise)
            gaussian.neighboring = "add_remove"
            return AmplificationBySampling(PoissonSampling=True)(gaussian, rate, improved_bound_flag=True)

        for case, p in (("training", TRAINING), ("steep", STEEP)):
            epsilon(
                "autodp", case, "RDP", lambda: Composition()([step(p["noise"], p["rate"])], [p["steps"]]).get_approxDP(p["delta"])
            )

        def plan():
            parts = [LaplaceMechanism(1 / e) for e in laplaces] + [GaussianMechanism(s) for s in gaussians]
            parts += [step(s, q) for s, q in steps]
            return Composition()(parts, [1] * len(parts)).get_approxDP(MIXED_DELTA)

        epsilon("autodp", "mixed", "RDP", plan)
    except ImportError:
        pass
    try:
        from opacus.accountants import PRVAccountant, RDPAccountant

        def history(make, entries, delta):
            accountant = make()
            accountant.history = entries
            return float(accountant.get_epsilon(delta))

        for how, make in (("PRV", PRVAccountant), ("RDP", RDPAccountant)):
            for case, p in (("training", TRAINING), ("steep", STEEP)):
                epsilon("opacus", case, how, lambda: history(make, [(p["noise"], p["rate"], p["steps"])], p["delta"]))
    except ImportError:
        pass


if __name__ == "__main__":
    {"noise": noise, "accounting": accounting}[sys.argv[1]]()
