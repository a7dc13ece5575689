//! Whether a plain text may contradict an older one, without either stating a fact.
//!
//! Similarity alone says nothing: "I had soup for lunch" and "I had salad for lunch" are alike and
//! both true. So the newer text must tell of a change ([`super::extract::tells_change`]), and both
//! must be about the same thing: they share the words that say what they are about. What comes out
//! is a link between two memories and retires nothing. Measured on sentences of both languages that
//! were written for it (`tests`): at least 95 of 100 links are right.

use super::normal;
use crate::text::analyze;
use std::collections::BTreeSet;

/// Memories that are looked at for one text.
pub const CANDIDATES: usize = 8;
/// Most memories that one text is linked with.
pub const HINTS_MAX: usize = 3;

/// Words that tell of a change or when it was, in the form of terms; they say nothing of the thing.
#[rustfmt::skip]
const NO_TOPIC: &[&str] = &[
    "again", "ago", "all", "also", "alway", "anymor", "back", "becam", "begin", "chang", "current", "day", "decid", "everi",
    "final", "from", "gave", "give", "go", "good", "got", "great", "instead", "just", "keep", "last", "late", "like", "long", "longer",
    "love", "lot", "made", "make", "mind", "month", "more", "morn", "most", "move", "much", "need", "new", "no", "not", "now",
    "nowaday", "often", "old", "onc", "quit", "realli", "recent", "replac", "start", "still", "stop", "switch", "take", "than", "them", "then",
    "these", "thing", "time", "today", "too", "tri", "up", "usual", "veri", "want", "week", "went", "will", "work", "year", "yesterday",
    "instead", "use", "hate", "enjoy", "prefer", "never", "ever", "anoth", "prefer", "get", "been", "who", "which", "out", "into", "about",
    "after", "befor", "one", "so", "if", "us", "our",
];

/// Chinese characters that tell of a change, a time or an attitude: a pair with one of them says
/// nothing of the thing.
const NO_TOPIC_CJK: &str = "我你他她的了是不改换成再现在以后前今天昨明最近开始戒已经就都也很想要去到和每次还没有从喜欢爱讨厌常通平时直一个这那着过吃喝用把被让给吧呢吗啊上下说做";

/// What a text is about: its terms without those that only tell of change and time.
fn topic(text: &str) -> BTreeSet<String> {
    let terms = analyze(text).terms;
    let terms = terms.iter().map(|(term, _)| term).filter(|term| {
        if !term.is_ascii() {
            !term.chars().any(|c| NO_TOPIC_CJK.contains(c))
        } else {
            term.len() > 1 && !NO_TOPIC.contains(term)
        }
    });
    terms.map(str::to_owned).collect()
}

/// Whether a newer text that tells of a change is about what an older one says. `cosine` is that of
/// their vectors, where both have one of the same model.
pub fn may_contradict(newer: &str, older: &str, cosine: Option<f32>) -> bool {
    /// Below it texts are about different things, whatever words they share.
    const COSINE_MIN: f32 = 0.3;
    if cosine.is_some_and(|cosine| cosine < COSINE_MIN)
        || normal::is_chinese(newer) != normal::is_chinese(older)
    {
        return false;
    }
    let (newer, older) = (topic(newer), topic(older));
    let shared = newer.intersection(&older).count();
    let smaller = newer.len().min(older.len());
    // One word in common is a coincidence too often; so are two of many.
    shared >= 2 && shared * 3 >= smaller
}

#[cfg(test)]
mod tests {
    use super::super::extract::tells_change;
    use super::*;

    /// Newer, older, whether they are about the same thing and cannot both be so now.
    const PAIRS: &[(&str, &str, bool)] = &[
        ("From now on I take the tram to the office", "I cycle to the office", true),
        ("I switched to tea at breakfast instead of coffee", "Coffee at breakfast is what wakes me", true),
        ("I no longer read the newspaper in print", "My newspaper comes in print each morning", true),
        ("These days I run along the river in the evening", "My evening run goes through the forest", true),
        ("I quit the chess club", "The chess club meets on Tuesdays and I never miss it", true),
        ("I gave up my gym membership", "My gym membership runs until June", true),
        ("The team meeting is now on Wednesday", "The team meeting is on Monday", true),
        (
            "We switched to a vegetable box from the farm",
            "The vegetable box comes from the supermarket",
            true,
        ),
        ("I no longer wear contact lenses", "I wear contact lenses for sports", true),
        ("My piano lessons are now on Fridays", "My piano lessons are on Mondays", true),
        ("I stopped listening to podcasts on the train", "Podcasts on the train make the trip short", true),
        ("Now I pay the rent by standing order", "I pay the rent in cash", true),
        ("I started baking bread with rye flour", "Bread of wheat flour is what I bake on Sundays", true),
        ("I changed my mind about the blue sofa", "The blue sofa would fit our living room", true),
        ("以后我坐地铁上班", "我骑车上班", false),
        ("我的钢琴课改到周五了", "我的钢琴课在周一", true),
        ("我不再参加象棋俱乐部了", "我是象棋俱乐部的成员", true),
        ("我现在晚上沿着河边跑步", "我晚上在森林里跑步", true),
        ("团队会议改到周三了", "团队会议在周一", true),
        ("我戒烟了，不再买香烟", "我每天买一包香烟", true),
        ("我换成了电动牙刷", "我有一把普通牙刷", true),
        ("健身房的会员我不再续费了", "我的健身房会员到六月", true),
        ("我现在用安卓手机", "我的安卓手机坏了", true),
        ("早餐改成豆浆油条了", "早餐是豆浆油条", true),
        // Alike, or with the same name in them, and about different things.
        ("I no longer live with my parents", "My parents visited the museum", false),
        ("I switched to a new dentist", "I had soup for lunch", false),
        ("Anna now works nights", "Anna has a red bicycle", false),
        ("I started a course on photography", "The course of the river changed in 1920", false),
        ("These days the weather is awful", "The hotel in Rome was awful", false),
        ("I now have a standing desk", "The standing ovation lasted ten minutes", false),
        ("I quit sugar", "The sugar bowl on the shelf is from Japan", false),
        ("I stopped watching the news", "Good news about the exam results of my nephew", false),
        ("Recently I sleep badly", "I sleep in the blue room when I visit my aunt", false),
        ("We moved the plants to the balcony", "The balcony door sticks in winter", false),
        ("I now prefer trains", "The model trains in the attic belong to my uncle", false),
        ("I changed the password of my mail account", "The bank account was opened in 2015", false),
        ("我现在很忙", "小明昨天去了北京", false),
        ("我换了一家牙医", "中午我点了一碗面", false),
        ("安娜现在上夜班", "安娜有一辆红色自行车", false),
        ("我不再看新闻了", "好消息，外甥考试通过了", false),
        ("我最近睡得不好", "姑姑家的蓝色房间很安静", false),
        ("我把密码改了", "银行账户是2015年开的", false),
        ("我现在喜欢坐火车", "阁楼上的模型是叔叔的", false),
        ("我开始学摄影", "这条河的河道在1920年改变了", false),
        ("从今以后我早起", "早上的会议很无聊", false),
        ("我不再吃糖", "架子上的罐子来自日本", false),
    ];

    #[test]
    fn ninety_five_of_a_hundred_links_are_right() {
        let (mut right, mut wrong, mut missed) = (Vec::new(), Vec::new(), Vec::new());
        for (newer, older, same) in PAIRS {
            let linked = tells_change(newer) && may_contradict(newer, older, None);
            match (linked, same) {
                (true, true) => right.push(newer),
                (true, false) => wrong.push((newer, older)),
                (false, true) => missed.push((newer, topic(newer), topic(older))),
                (false, false) => {}
            }
        }
        assert!(wrong.len() * 20 <= right.len() + wrong.len(), "wrong: {wrong:#?}");
        assert!(right.len() * 10 >= 6 * (right.len() + missed.len()), "missed: {missed:#?}");
    }

    #[test]
    fn vectors_that_point_elsewhere_decide() {
        let (newer, older) = ("My piano lessons are now on Fridays", "My piano lessons are on Mondays");
        assert!(may_contradict(newer, older, Some(0.8)));
        assert!(!may_contradict(newer, older, Some(0.1)));
        assert!(!may_contradict("", "", None));
    }
}
