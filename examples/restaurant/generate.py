#!/usr/bin/env python3
"""Makes bills.csv.gz: the bills of a made-up chain of restaurants for one year. Nobody in it exists.

    python3 generate.py            # writes bills.csv.gz beside this file, the same bytes every time

Regulars come often: the number of visits of a guest is heavy-tailed, up to 24 in the year. Standard library only.
"""
import csv, datetime, gzip, io, pathlib, random

CITIES = {  # name: (share of guests, typical spend per head)
    "Beijing": (0.24, 168), "Chengdu": (0.14, 112), "Guangzhou": (0.16, 134), "Hangzhou": (0.12, 141),
    "Nanjing": (0.09, 118), "Shanghai": (0.20, 182), "Wuhan": (0.03, 101), "Xi'an": (0.02, 96),
}
GUESTS, YEAR = 12_000, 2025


def main():
    rng = random.Random(20251231)
    names = list(CITIES)
    shares = [CITIES[name][0] for name in names]
    bills = []
    for guest in range(1, GUESTS + 1):
        home = rng.choices(names, shares)[0]
        visits = min(24, int(1.4 * rng.paretovariate(1.8)))
        for _ in range(visits):
            city = home if rng.random() < 0.93 else rng.choices(names, shares)[0]
            heads = rng.choices([1, 2, 3, 4, 5, 6, 8, 10], [10, 38, 16, 18, 7, 6, 3, 2])[0]
            per_head = max(22.0, rng.lognormvariate(0, 0.38) * CITIES[city][1])
            day = datetime.date(YEAR, 1, 1) + datetime.timedelta(days=rng.randrange(365))
            mood = 4.1 + 0.25 * (city in ("Chengdu", "Hangzhou")) - 0.3 * (heads >= 8) + rng.gauss(0, 0.8)
            stars = "" if rng.random() < 0.22 else str(min(5, max(1, round(mood))))
            bills.append((day.isoformat(), f"G{guest:05d}", city, heads, f"{per_head * heads:.2f}", stars))
    bills.sort()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["date", "guest", "city", "heads", "amount", "satisfaction"])
    writer.writerows(bills)
    path = pathlib.Path(__file__).with_name("bills.csv.gz")
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(text.getvalue().encode())
    print(f"{path.name}: {len(bills)} bills of {GUESTS} guests")


if __name__ == "__main__":
    main()
