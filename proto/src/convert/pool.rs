use crate::v1;
use holdfast_core::score::{Constants, CorpusStats, Stats};

impl From<CorpusStats> for v1::Corpus {
    fn from(corpus: CorpusStats) -> Self {
        Self { rows: corpus.rows, total_len: corpus.total_len, df: corpus.df }
    }
}

impl From<v1::Corpus> for CorpusStats {
    fn from(corpus: v1::Corpus) -> Self {
        Self { rows: corpus.rows, total_len: corpus.total_len, df: corpus.df }
    }
}

impl From<Stats> for v1::Sums {
    fn from(stats: Stats) -> Self {
        Self {
            n: stats.n,
            sum_l: stats.sum_l,
            sumsq_l: stats.sumsq_l,
            count_c: stats.count_c,
            sum_c: stats.sum_c,
            sumsq_c: stats.sumsq_c,
        }
    }
}

impl From<v1::Sums> for Stats {
    fn from(sums: v1::Sums) -> Self {
        Self {
            n: sums.n,
            sum_l: sums.sum_l,
            sumsq_l: sums.sumsq_l,
            count_c: sums.count_c,
            sum_c: sums.sum_c,
            sumsq_c: sums.sumsq_c,
        }
    }
}

impl From<Constants> for v1::Constants {
    fn from(constants: Constants) -> Self {
        let Constants { mean_c, dev_c, mean_l, dev_l } = constants;
        Self { mean_c, dev_c, mean_l, dev_l }
    }
}

impl From<v1::Constants> for Constants {
    fn from(constants: v1::Constants) -> Self {
        let v1::Constants { mean_c, dev_c, mean_l, dev_l } = constants;
        Self { mean_c, dev_c, mean_l, dev_l }
    }
}
