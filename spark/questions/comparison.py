"""The section of a summary that compares the durations in two sets of traces.

Rule: a name is compared if it was measured at least ENOUGH times in both sets. A difference is shown if it is
        significant and relevant. Significant: the rank-sum test of Mann and Whitney (normal approximation, corrected
        for ties) gives |z| > SURE. By chance, this happens once in a thousand comparisons. Relevant: the medians
        differ by a factor of NOTABLE or more.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from spark.questions.handling import percentile, who

ENOUGH = 20
SURE = 3.29
NOTABLE = 1.25


def samples(kinds: dict[str, tuple[DataFrame, str]], delivered: DataFrame) -> DataFrame:
    """Collect all measured times.

    Args:
        kinds: Kind -> (data frame with the column `ms`, name of the column that has each row's name).
        delivered: Deliveries; their handling times are included, named by actor and type.

    Returns:
        kind, name, ms.
    """
    each = [
        frame.select(f.lit(kind).alias("kind"), f.col(name).alias("name"), "ms")
        for kind, (frame, name) in kinds.items()
    ]
    named = f.concat_ws(" ", who(), "type").alias("name")
    each.append(delivered.select(f.lit("handling").alias("kind"), named, (f.col("took") * 1000).alias("ms")))
    return reduce(DataFrame.unionAll, each).where(f.col("ms").isNotNull())


def compare(before: DataFrame, after: DataFrame) -> DataFrame:
    """Compare the names that were measured in both sets of traces.

    Args:
        before: Samples of the earlier traces.
        after: Samples of the later traces.

    Returns:
        kind, name, verdict (slower, faster; null: no change), before_count, after_count, before_p50_ms, after_p50_ms,
        before_p99_ms, after_p99_ms, ratio (of the medians), z (certainty; null with too few samples); changes first.
    """
    both = before.withColumn("later", f.lit(0)).unionAll(after.withColumn("later", f.lit(1)))
    of = Window.partitionBy("kind", "name")
    ties = f.count("*").over(Window.partitionBy("kind", "name", "ms"))
    ranked = both.withColumn("ties", ties).withColumn("rank", f.rank().over(of.orderBy("ms")) + (f.col("ties") - 1) / 2)
    later = f.col("later")
    grouped = ranked.groupBy("kind", "name").agg(
        f.sum(1 - later).alias("before_count"),
        f.sum(later).alias("after_count"),
        *(
            percentile(f.when(later == at, f.col("ms")), share).alias(f"{when}_{name}_ms")
            for name, share in (("p50", 0.5), ("p99", 0.99))
            for at, when in enumerate(("before", "after"))
        ),
        f.sum(later * f.col("rank")).alias("ranks"),
        f.sum(f.col("ties") * f.col("ties") - 1).alias("tied"),
    )
    met = grouped.where((f.col("before_count") > 0) & (f.col("after_count") > 0))
    enough = f.least("before_count", "after_count") >= ENOUGH
    judged = met.withColumn("z", f.when(enough, _z())).withColumn(
        "ratio", f.when(f.col("before_p50_ms") > 0, f.col("after_p50_ms") / f.col("before_p50_ms"))
    )
    sure = f.abs("z") > SURE
    verdict = f.when(sure & (f.col("ratio") >= NOTABLE), "slower").when(
        sure & (f.col("ratio") <= 1 / NOTABLE), "faster"
    )
    figures = ("before_count", "after_count", "before_p50_ms", "after_p50_ms", "before_p99_ms", "after_p99_ms")
    shown = judged.select("kind", "name", verdict.alias("verdict"), *figures, "ratio", "z")
    return shown.orderBy(f.col("verdict").isNull(), f.desc(f.abs("z")), "kind", "name")


def _z() -> Column:
    """The number of standard deviations by which the rank sum of the later samples exceeds its expected value."""
    one, two = f.col("before_count").cast("double"), f.col("after_count").cast("double")
    both = one + two
    more = f.col("ranks") - two * (two + 1) / 2 - one * two / 2
    variance = one * two / 12 * (both + 1 - f.col("tied") / (both * (both - 1)))
    return f.when(variance > 0, more / f.sqrt(variance))
