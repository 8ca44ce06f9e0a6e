"""The API versions of older Kafka releases, as which a broker may present itself to clients (`api.versions.max`).

Source: the message definitions of the tags 2.1.1, 2.4.1, 2.6.3, 2.8.2, 3.3.2, 3.6.2 and 3.9.0-rc3, less their unstable
versions.
"""

from __future__ import annotations

from collections.abc import Mapping

RELEASES = ("2.1", "2.4", "2.6", "2.8", "3.3", "3.6", "3.9")
OLDEST, NEWEST = RELEASES[0], RELEASES[-1]

_TABLE = """\
0 7 8 8 9 9 9 11
1 10 11 11 12 13 15 17
2 4 5 5 6 7 8 9
3 7 9 9 11 12 12 12
8 6 8 8 8 8 8 9
9 5 6 7 7 8 8 9
10 2 3 3 3 4 4 6
11 3 6 7 7 9 9 9
12 2 4 4 4 4 4 4
13 2 4 4 4 5 5 5
14 2 4 5 5 5 5 5
15 2 5 5 5 5 5 5
16 2 3 4 4 4 4 5
17 1 1 1 1 1 1 1
18 2 3 3 3 3 3 4
19 3 5 5 7 7 7 7
20 3 4 4 6 6 6 6
21,39,40 1 1 2 2 2 2 2
22 1 2 3 4 4 4 5
23 2 3 3 4 4 4 4
24 1 1 1 3 3 4 5
25,26 1 1 1 3 3 3 4
27 0 0 0 1 1 1 1
28 2 2 3 3 3 3 4
29,30,31,41 1 1 2 2 3 3 3
32 2 2 3 4 4 4 4
33,34 1 1 1 2 2 2 2
35 1 1 2 2 4 4 4
36 0 1 2 2 2 2 2
37 1 1 2 3 3 3 3
38 1 2 2 2 3 3 3
42 1 2 2 2 2 2 2
43 - 2 2 2 2 2 2
44 - 1 1 1 1 1 1
45,46,47 - 0 0 0 0 0 0
48,49 - - 0 1 1 1 1
50,51,61 - - - 0 0 0 0
56 - - - 0 2 3 3
57 - - - 0 1 1 1
60 - - - 0 0 0 1
65 - - - - 0 0 0
66 - - - - 0 0 1
68,69 - - - - - - 0"""
"""API keys, and their highest version in each release; "-" if the release lacks the API."""

MAXIMA: Mapping[str, Mapping[int, int]] = {
    release: {
        int(key): int(versions[place])
        for keys, *versions in map(str.split, _TABLE.splitlines())
        for key in keys.split(",")
        if versions[place] != "-"
    }
    for place, release in enumerate(RELEASES)
}
"""Release -> the highest version of each API that it has, by API key."""
