"""Writes the reference tables of this folder. Needs mpmath (1.3 or 1.4); run as `python3 make.py`.

Everything is computed from the definitions with 60 digits, by other formulas than the crate uses.
"""
import random
from mpmath import mp, mpf, erfc, exp, log, pi, quad, sqrt, nstr

mp.dps = 60
random.seed(20261130)


def upper(x):
    return erfc(x / sqrt(2)) / 2


def delta(epsilon, mu):
    """Balle and Wang 2018, Theorem 8; 400 digits where the two terms cancel."""
    mp.dps = 400
    result = upper(epsilon / mu - mu / 2) - exp(epsilon) * upper(epsilon / mu + mu / 2)
    mp.dps = 60
    return +result


def log_uniform(low, high):
    return mpf(float(10 ** random.uniform(low, high)))


def write(name, header, rows):
    with open(name, "w") as file:
        file.write("# mpmath, 60 digits, make.py: " + header + "\n")
        for row in rows:
            file.write(" ".join(x if isinstance(x, str) else nstr(x, 20) for x in row) + "\n")


def gaussian_rows():
    rows = []
    while len(rows) < 300:
        # (a, mu) spans the useful range: delta from 0.9 to 1e-25.
        mu = log_uniform(-9, 3)
        a = mpf(random.uniform(-3, 10))
        epsilon = mpf(float(mu * (a + mu / 2)))
        if epsilon < mpf(10) ** -9 or epsilon > 10 ** 6:
            continue
        rows.append((epsilon, mu, delta(epsilon, mu)))
    return rows


def renyi_pure(epsilon, alpha):
    """Randomised response, from the definition."""
    p, q = exp(epsilon) / (1 + exp(epsilon)), 1 / (1 + exp(epsilon))
    return log(p ** alpha * q ** (1 - alpha) + q ** alpha * p ** (1 - alpha)) / (alpha - 1)


def pure_rows():
    rows = []
    for _ in range(200):
        epsilon, order = log_uniform(-9, 4), log_uniform(-8, 5)
        alpha = mpf(float(1 + order))
        mp.dps = 400
        value = renyi_pure(epsilon, alpha)
        mp.dps = 60
        rows.append((epsilon, alpha, +value))
    return rows


def conversion_rows():
    """Canonne, Kamath and Steinke 2020, Proposition 12, for a loss of zero."""
    rows = []
    for _ in range(200):
        order, d = log_uniform(-8, 12), log_uniform(-18, -0.01)
        rows.append((order, d, log(order / (1 + order)) + (log(1 / d) - log(1 + order)) / order))
    return rows


def zcdp_rows():
    """The minimum over real orders, by the root of the derivative in the order."""
    rows = []
    for _ in range(100):
        rho, d = log_uniform(-8, 5), log_uniform(-18, -2)
        # d/dα [αρ + ln((α−1)/α) + (ln(1/δ) − ln α)/(α−1)] (α−1)² = ρ(α−1)² − ln(1/δ) + ln α
        slope = lambda s: rho * s ** 2 - log(1 / d) + log(1 + s)
        low, high = mpf(10) ** -9, mpf(10) ** 12
        for _ in range(400):
            middle = sqrt(low * high)
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        s = low
        value = (1 + s) * rho + log(s / (1 + s)) + (log(1 / d) - log(1 + s)) / s
        rows.append((rho, d, max(value, mpf(0))))
    return rows


def sampled_gaussian(rate, sigma, alpha):
    """The moment as one integral over the line, in pieces of four deviations."""
    def integrand(u):
        ratio = exp(u / sigma - 1 / (2 * sigma ** 2))
        return exp(-u ** 2 / 2) * ((1 - rate + rate * ratio) ** alpha - 1 - alpha * rate * (ratio - 1))

    ends = [mpf(4 * i) for i in range(-5, int((alpha + 2) / sigma / 4) + 7)]
    return log(1 + quad(integrand, ends) / sqrt(2 * pi)) / (alpha - 1)


def sampled_rows():
    rows = []
    mp.dps = 34
    while len(rows) < 120:
        rate, sigma, order = log_uniform(-7, -0.01), log_uniform(-0.6, 1.5), log_uniform(-4, 2.3)
        alpha = mpf(float(1 + order))
        if alpha / sigma < 80:
            rows.append((rate, sigma, alpha, sampled_gaussian(rate, sigma, alpha)))
    mp.dps = 60
    return rows


def laplace(multiplier, alpha):
    """Three pieces of the line."""
    x = 1 / multiplier
    between = (exp((alpha - 1) * x) - exp(-alpha * x)) / (2 * (2 * alpha - 1))
    return log((exp((alpha - 1) * x) + exp(-alpha * x)) / 2 + between) / (alpha - 1)


def laplace_rows():
    rows = []
    for _ in range(200):
        multiplier, order = log_uniform(-2, 9), log_uniform(-8, 5)
        alpha = mpf(float(1 + order))
        mp.dps = 400
        value = laplace(multiplier, alpha)
        mp.dps = 60
        rows.append((multiplier, alpha, +value))
    return rows


def renyi_delta_rows():
    """Gaussian noise: the smallest delta over real orders at an epsilon, by the root of the derivative."""
    rows = []
    for _ in range(100):
        rho = log_uniform(-6, 2)
        # Between the mean of the loss and thirty deviations above it.
        epsilon = mpf(float(rho + log_uniform(-1, 1.4) * sqrt(2 * rho)))
        value = lambda s: s * ((1 + s) * rho - epsilon + log(s / (1 + s))) - log(1 + s)
        slope = lambda s: (1 + 2 * s) * rho - epsilon + log(s / (1 + s))
        low, high = mpf(10) ** -9, mpf(10) ** 12
        for _ in range(400):
            middle = sqrt(low * high)
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        rows.append((rho, epsilon, exp(value(low))))
    return rows


write("gaussian_delta.txt", "epsilon mu delta", gaussian_rows())
write("renyi_pure.txt", "epsilon alpha loss", pure_rows())
write("conversion.txt", "order delta epsilon", conversion_rows())
write("zcdp.txt", "rho delta epsilon", zcdp_rows())
write("renyi_laplace.txt", "multiplier alpha loss", laplace_rows())
write("renyi_delta.txt", "rho epsilon delta", renyi_delta_rows())
write("sampled_gaussian.txt", "(sampled_gaussian with 34) rate sigma alpha loss", sampled_rows())
