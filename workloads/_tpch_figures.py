"""What is known of the TPC-H queries: tables, stages, and tasks and work by size.

The numbers of stages, edges and tasks, the depth and the work were computed from the measurements of TPC-H on Spark
that accompany H. Mao et al., "Learning scheduling algorithms for data processing clusters" (Decima), SIGCOMM 2019.
The tables are those in the FROM clauses of the queries (TPC Benchmark H, standard specification, section 2.4), as
often as Spark scanned them.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FIGURES", "SHUFFLE_TASKS", "SIZES", "TASKS_PER_GB", "Figures", "scan_tasks"]

#: Gigabytes of data in all tables together, in the order of the columns below.
SIZES = (2, 5, 10, 20, 50, 80, 100)

#: Tasks of a stage behind a shuffle: Spark's spark.sql.shuffle.partitions, left at its default.
SHUFFLE_TASKS = 200

#: Tasks that scan a table, for each gigabyte: lineitem, orders, partsupp (B), part, customer, supplier, nation, region.
TASKS_PER_GB = {"L": 5.93, "O": 1.33, "B": 0.91, "P": 0.19, "C": 0.19, "S": 0.0, "N": 0.0, "R": 0.0}


class Figures(NamedTuple):
    """Figures of a query.

    Attributes
    ----------
    tables : str
        Scanned tables by the letters above; those behind a bar are scanned when the result of a scalar subquery over
        those in front of it is known.
    num_stages, num_edges : int
        Size of the graph.
    depth : int
        Stages on the longest path.
    num_tasks : tuple of int
        Tasks in all stages together, for each of the sizes.
    work : tuple of float
        Seconds of all tasks together, for each of the sizes.
    """

    tables: str
    num_stages: int
    num_edges: int
    depth: int
    num_tasks: tuple[int, ...]
    work: tuple[float, ...]


def scan_tasks(table: str, size: float) -> int:
    """Return how many tasks scan a table: in proportion to the size, but at least two."""
    return max(2, round(TASKS_PER_GB[table] * size))


FIGURES = {
    1: Figures("L", 4, 3, 4, (417, 434, 463, 522, 700, 879, 998), (108.4, 163.9, 262.6, 433.4, 856.0, 1271.7, 1573.3)),
    2: Figures(
        "RNNSSBPP",
        18,
        19,
        7,
        (1817, 1820, 1824, 1837, 1875, 1914, 1940),
        (189.7, 205.2, 224.2, 272.5, 423.6, 555.1, 631.1),
    ),
    3: Figures(
        "COL", 6, 5, 4, (418, 439, 474, 549, 772, 996, 1146), (160.5, 227.7, 343.4, 544.9, 1122.6, 1735.5, 2298.1)
    ),
    4: Figures(
        "LO", 6, 5, 5, (621, 642, 677, 750, 967, 1186, 1332), (139.3, 207.5, 322.0, 512.5, 1036.2, 1600.9, 2060.8)
    ),
    5: Figures(
        "RNSLOC",
        14,
        13,
        9,
        (1429, 1450, 1485, 1560, 1783, 2007, 2157),
        (227.6, 306.2, 433.7, 668.8, 1326.7, 2045.3, 2562.8),
    ),
    6: Figures("L", 2, 1, 2, (13, 30, 59, 118, 296, 475, 594), (36.5, 85.0, 178.3, 335.1, 711.0, 1086.1, 1359.3)),
    7: Figures(
        "NSLCO",
        13,
        13,
        7,
        (1426, 1447, 1482, 1557, 1780, 2004, 2154),
        (211.2, 279.9, 389.5, 596.5, 1167.7, 1810.5, 2338.2),
    ),
    8: Figures(
        "RNNSPLOC",
        18,
        17,
        8,
        (1830, 1851, 1886, 1963, 2191, 2421, 2575),
        (231.4, 312.0, 443.1, 671.7, 1321.0, 2034.8, 2623.7),
    ),
    9: Figures(
        "NSPLBO",
        14,
        13,
        8,
        (1599, 1623, 1662, 1746, 1996, 2248, 2416),
        (272.6, 368.9, 525.3, 790.4, 1599.0, 2468.4, 3425.8),
    ),
    10: Figures(
        "OCNL", 9, 8, 6, (820, 841, 876, 951, 1174, 1398, 1548), (185.9, 251.2, 358.0, 551.0, 1097.1, 1689.8, 2123.8)
    ),
    11: Figures(
        "NSB|B",
        11,
        11,
        9,
        (1020, 1016, 1024, 1042, 1098, 1152, 1188),
        (158.4, 176.3, 201.0, 248.4, 393.2, 536.1, 626.5),
    ),
    12: Figures(
        "LO", 6, 5, 5, (618, 639, 674, 747, 964, 1183, 1329), (137.7, 202.2, 311.5, 496.2, 1008.2, 1530.1, 1890.3)
    ),
    13: Figures("CO", 7, 6, 6, (847, 852, 862, 877, 923, 967, 998), (138.4, 162.0, 197.9, 273.8, 506.8, 720.3, 851.3)),
    14: Figures(
        "PL", 4, 3, 3, (215, 232, 261, 322, 505, 690, 813), (100.7, 153.0, 243.3, 399.8, 808.6, 1210.5, 1507.0)
    ),
    15: Figures(
        "L|S", 7, 7, 7, (617, 634, 663, 722, 899, 1079, 1198), (128.5, 182.6, 273.6, 438.0, 836.5, 1225.5, 1504.6)
    ),
    16: Figures(
        "SBP", 9, 8, 7, (1206, 1209, 1213, 1224, 1257, 1290, 1312), (210.0, 223.9, 244.0, 285.7, 410.9, 529.6, 606.6)
    ),
    17: Figures(
        "PLL", 6, 6, 4, (427, 461, 519, 639, 1000, 1364, 1606), (174.5, 296.2, 485.2, 822.7, 1828.1, 2896.0, 3635.2)
    ),
    18: Figures(
        "LOLC", 8, 7, 5, (630, 668, 732, 866, 1267, 1670, 1939), (187.5, 317.0, 504.7, 859.1, 1864.6, 2888.0, 3765.4)
    ),
    19: Figures(
        "PL", 4, 3, 3, (215, 232, 261, 322, 505, 690, 813), (103.9, 156.5, 247.7, 404.5, 816.8, 1235.3, 1569.2)
    ),
    20: Figures(
        "NSLPB",
        12,
        11,
        6,
        (1420, 1440, 1473, 1543, 1754, 1966, 2107),
        (222.6, 291.3, 399.8, 586.8, 1093.2, 1624.2, 1980.7),
    ),
    21: Figures(
        "LLNSLO",
        16,
        15,
        7,
        (1844, 1899, 1992, 2183, 2756, 3333, 3717),
        (381.6, 603.2, 932.2, 1586.3, 3494.3, 5744.0, 7560.1),
    ),
    22: Figures(
        "C|OC", 8, 8, 7, (616, 620, 626, 644, 695, 745, 780), (118.1, 132.7, 158.8, 214.1, 377.5, 524.7, 616.2)
    ),
}
