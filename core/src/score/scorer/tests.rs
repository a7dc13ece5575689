//! Worked values: the arithmetic of every expectation stands beside it.

use proptest::prelude::*;

use super::*;

const HOUR: i64 = 3_600_000_000;

fn row(age_hours: i64, adopted: u32, importance: f32, strength: f32) -> Statics {
    Statics { last_access_micros: -age_hours * HOUR, adopted, importance, strength }
}

fn score(profile: Profile, relevance: f64, row: &Statics) -> f64 {
    let scorer = Scorer::new(profile, 0);
    scorer.score(&scorer.parts(relevance, row), 0.0)
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() < 1e-6, "{got} is not {want}");
}

#[test]
fn ebbinghaus() {
    // S .8, 36 h old, never adopted, importance .5:
    // R = exp(-36/72) = exp(-.5) = .6065307
    // .55*.8 + .25*.6065307 + .20*.5 = .44 + .1516327 + .1 = .6916327
    close(score(Profile::Ebbinghaus, 0.8, &row(36, 0, 0.5, 1.0)), 0.691_632_7);
    // 144 h old, adopted 3 times: 1 + ln 4 = 2.3862944; tau 72 * 2.3862944 = 171.8131936
    // R = exp(-144/171.8131936) = exp(-.8381196) = .4325232
    // .55*.5 + .25*.4325232 + .20*1 = .275 + .1081308 + .2 = .5831308
    close(score(Profile::Ebbinghaus, 0.5, &row(144, 3, 1.0, 1.0)), 0.583_130_8);
}

#[test]
fn generative() {
    // R = .995^100 = exp(-.5012542) = .6057704
    // .3*.5 + .4*.6057704 + .3*.2 = .15 + .2423082 + .06 = .4523082
    close(score(Profile::Generative, 0.5, &row(100, 9, 0.2, 1.0)), 0.452_308_2);
}

#[test]
fn adaptive() {
    // R = exp(-2/4) = .6065307; F = ln 10 / ln 101 = 2.3025851/4.6151205 = .4989220
    // .3*.9 + .6*.6065307 + .1*.4989220 = .27 + .3639184 + .0498922 = .6838106
    close(score(Profile::Adaptive, 0.9, &row(2, 9, 1.0, 1.0)), 0.683_810_6);
}

#[test]
fn spaced() {
    // R = exp(-72/72) = .3678794; F = (2.55 - .1)/4.9 = .5
    // .5*.4 + .2*.3678794 + .1*.5 + .2*.5 = .2 + .0735759 + .05 + .1 = .4235759
    close(score(Profile::Spaced, 0.4, &row(72, 0, 0.5, 2.55)), 0.423_575_9);
}

#[test]
fn relevance_alone() {
    close(score(Profile::Relevance, 0.37, &row(1, 100, 1.0, 5.0)), 0.37);
}

#[test]
fn tau_and_weights_can_be_set() {
    // tau 36: R = exp(-1) = .3678794; weights .5 .5: .5*.2 + .5*.3678794 = .2839397
    let weights = Weights { s: 0.5, r: 0.5, i: 0.0, f: 0.0 };
    let scorer = Scorer::new(Profile::Ebbinghaus, 0).with_tau_hours(36.0).with_weights(weights);
    close(scorer.score(&scorer.parts(0.2, &row(36, 0, 1.0, 1.0)), 0.0), 0.283_939_7);
}

#[test]
fn the_future_counts_as_now_and_extremes_are_finite() {
    let scorer = Scorer::new(Profile::Ebbinghaus, 0);
    close(scorer.parts(0.0, &row(-500, 0, 0.5, 1.0)).recency, 1.0);
    for now_micros in [i64::MIN, 0, i64::MAX] {
        for last_access_micros in [i64::MIN, 0, i64::MAX] {
            let scorer = Scorer::new(Profile::Spaced, now_micros);
            let row =
                Statics { last_access_micros, adopted: u32::MAX, importance: f32::NAN, strength: f32::NAN };
            let parts = scorer.parts(1.0, &row);
            assert!((0.0..=1.0).contains(&parts.recency));
            close(parts.importance, 0.5);
            assert!(scorer.score(&parts, 0.0).is_finite());
        }
    }
}

#[test]
fn boosts_are_held() {
    close(boost_sum([]), 0.0);
    close(boost_sum([0.05, 0.02]), 0.07);
    close(boost_sum([7.0]), 0.1);
    close(boost_sum([0.1, 0.1, 0.1]), 0.2);
    close(boost_sum([-9.0, -0.1, f64::NEG_INFINITY]), -0.2);
    close(boost_sum([f64::NAN, 0.01]), 0.01);
}

proptest! {
    #[test]
    fn scores_are_finite_and_in_range(
        now_micros in any::<i64>(),
        last_access_micros in any::<i64>(),
        adopted in any::<u32>(),
        importance in any::<f32>(),
        strength in any::<f32>(),
        relevance in 0.0..=1.0f64,
        boosts in prop::collection::vec(any::<f64>(), 0..5),
    ) {
        let row = Statics { last_access_micros, adopted, importance, strength };
        for profile in Profile::ALL {
            let scorer = Scorer::new(profile, now_micros);
            let got = scorer.score(&scorer.parts(relevance, &row), boost_sum(boosts.clone()));
            let plain = scorer.score(&scorer.parts(relevance, &row), 0.0);
            prop_assert_eq!(scorer.score_row(relevance, &row), plain);
            prop_assert!((-0.2..=1.2 + 1e-9).contains(&got), "{:?}: {}", profile, got);
        }
    }
}

proptest! {
    /// What is sorted out by `at_most` could not have been among the best.
    #[test]
    fn at_most_is_no_less_than_the_score(
        profile in prop::sample::select(Profile::ALL.to_vec()),
        relevance in 0f64..=1.0,
        hours in prop_oneof![Just(0i64), -5..100i64, Just(1_000_000)],
        adopted in prop_oneof![0..5u32, any::<u32>(), Just(u32::MAX)],
        importance in prop_oneof![0f32..=1.0, Just(f32::NAN)],
        strength in prop_oneof![0.1f32..=5.0, Just(f32::NAN)],
        tau_hours in prop_oneof![Just(72f64), Just(0.0), Just(f64::NAN), Just(f64::INFINITY)],
    ) {
        let row = row(hours, adopted, importance, strength);
        let scorer = Scorer::new(profile, 0).with_tau_hours(tau_hours);
        let (most, score) = (scorer.at_most(relevance, &row), scorer.score_row(relevance, &row));
        prop_assert!(most >= score, "{most} {score}");
        prop_assert!(most <= 1.0 + 1e-9, "{most}");
    }
}
