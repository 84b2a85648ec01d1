#!/usr/bin/env python3
"""Makes checkins.csv.gz: check-ins in a made-up city. Nobody in it exists.

    python3 generate.py            # writes checkins.csv.gz beside this file, the same bytes every time

Most users check in a few times, some up to 150 times. Standard library only.
"""
import csv, datetime, gzip, io, pathlib, random

CENTRES = [  # latitude, longitude, spread in degrees, share
    (31.232, 121.475, 0.012, 0.30), (31.240, 121.500, 0.008, 0.18), (31.222, 121.445, 0.010, 0.16),
    (31.195, 121.437, 0.014, 0.12), (31.275, 121.520, 0.016, 0.10), (31.205, 121.595, 0.020, 0.08),
    (31.300, 121.450, 0.020, 0.06),
]
USERS = 6_000


def main():
    rng = random.Random(20260101)
    rows = []
    for user in range(1, USERS + 1):
        homes = rng.choices(CENTRES, [centre[3] for centre in CENTRES], k=3)
        for _ in range(min(150, int(2 * rng.paretovariate(1.3)))):
            latitude, longitude, spread, _ = homes[0] if rng.random() < 0.6 else rng.choice(homes)
            when = datetime.datetime(2025, 1, 1) + datetime.timedelta(minutes=rng.randrange(525_600))
            rows.append((
                when.strftime("%Y-%m-%dT%H:%M:00Z"), user,
                f"{rng.gauss(latitude, spread):.5f}", f"{rng.gauss(longitude, spread * 1.1):.5f}",
            ))
    rows.sort()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["time", "user", "latitude", "longitude"])
    writer.writerows(rows)
    path = pathlib.Path(__file__).with_name("checkins.csv.gz")
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
        packed.write(text.getvalue().encode())
    print(f"{path.name}: {len(rows)} check-ins of {USERS} users")


if __name__ == "__main__":
    main()
