#![allow(clippy::unwrap_used)]

use super::*;
use crate::memory::{Cardinality, Mode};

mod health;

/// 2026-03-10 12:00 UTC.
const NOON: i64 = 1_773_144_000_000_000;

fn extracted(text: &str) -> Extracted {
    let saying = Saying { who: None, event_us: NOON };
    extract(text, saying, &Rules::with(Vec::new()).unwrap(), &Registry::default())
}

/// Subject, predicate, what narrows it, value: as they are compared.
fn stated(text: &str) -> Vec<(String, String, String, String)> {
    let of =
        |statement: Statement| (statement.subject, statement.predicate, statement.about, statement.value);
    extracted(text).statements.into_iter().map(of).collect()
}

/// Sentences with what they state; all that are wrong are told at once.
#[derive(Default)]
struct Sheet {
    wrong: Vec<String>,
}

impl Sheet {
    fn is_one(&mut self, text: &str, subject: &str, predicate: &str, about: &str, value: &str) {
        let expected = vec![(subject.into(), predicate.into(), about.into(), value.into())];
        let found = stated(text);
        if found != expected {
            self.wrong.push(format!("{text}: {found:?}, not {expected:?}"));
        }
    }

    fn check(&mut self, text: &str, right: bool, found: &dyn std::fmt::Debug) {
        if !right {
            self.wrong.push(format!("{text}: {found:?}"));
        }
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        }
    }
}

#[test]
fn places_work_and_school() {
    let mut sheet = Sheet::default();
    for text in [
        "I live in Berlin",
        "I live in Berlin.",
        "I'm living in Berlin now",
        "I currently live in the city of Berlin!",
        "By the way, I just moved to Berlin.",
        "I've recently moved from Paris to Berlin",
        "I am based in Berlin these days.",
        "We moved back to Berlin last month",
    ] {
        sheet.is_one(text, "user", "lives in", "", "berlin");
    }
    for text in [
        "我住在北京",
        "我现在住在北京。",
        "我搬到北京了",
        "我又搬回北京了",
        "我重新搬到了北京",
        "上个月我搬去了北京",
        "我从上海搬到了北京",
        "住在北京",
    ] {
        sheet.is_one(text, "user", "lives in", "", "北京");
    }
    sheet.is_one("Anna lives in New York", "anna", "lives in", "", "new york");
    sheet.is_one("My sister Anna lives in Rome.", "user's sister anna", "lives in", "", "rome");
    sheet.is_one("小明住在上海", "小明", "lives in", "", "上海");
    sheet.is_one("I work at Acme Corp", "user", "works at", "", "acme corp");
    sheet.is_one("I started a new job at Initech", "user", "works at", "", "initech");
    sheet.is_one("我在腾讯工作", "user", "works at", "", "腾讯");
    sheet.is_one("我跳槽到字节跳动了", "user", "works at", "", "字节跳动");
    sheet.is_one("I'm a software engineer", "user", "job", "", "software engineer");
    sheet.is_one("我是一名医生", "user", "job", "", "医生");
    sheet.is_one("我在清华大学读书", "user", "studies at", "", "清华大学");
}

#[test]
fn diets_and_constraints() {
    let mut sheet = Sheet::default();
    for text in [
        "I'm a vegetarian",
        "I am vegetarian.",
        "I became a vegetarian",
        "我是素食者",
        "我吃素",
        "我是素食主义者",
    ] {
        sheet.is_one(text, "user", "diet", "", "vegetarian");
    }
    sheet.is_one("I am allergic to peanuts", "user", "allergic to", "peanuts", "yes");
    sheet.is_one("我对花生过敏", "user", "allergic to", "花生", "yes");
    for text in
        ["I don't eat spicy food", "I do not eat anything spicy", "我不吃辣", "我不能吃辣", "我不吃辣的"]
    {
        sheet.is_one(text, "user", "eats", "spicy", "no");
    }
    sheet.is_one("I never drink alcohol", "user", "drinks", "alcohol", "no");
    sheet.is_one("我不喝咖啡", "user", "drinks", "咖啡", "no");
    assert_eq!(extracted("I am allergic to peanuts").importance, Some(1.0));
    assert_eq!(extracted("我不吃辣").importance, Some(1.0));
    assert_eq!(extracted("I'm a vegetarian").importance, Some(0.9));
    assert_eq!(extracted("I like tea").importance, Some(0.7));
}

#[test]
fn attitudes_turn_with_their_words() {
    let mut sheet = Sheet::default();
    sheet.is_one("I love Chinese food", "user", "attitude to", "chinese food", "loves");
    sheet.is_one("I hate Chinese food now", "user", "attitude to", "chinese food", "hates");
    sheet.is_one("I really don't like mushrooms", "user", "attitude to", "mushrooms", "dislikes");
    sheet.is_one("I don't like mushrooms anymore", "user", "attitude to", "mushrooms", "dislikes");
    sheet.is_one("I can't stand loud music", "user", "attitude to", "loud music", "hates");
    sheet.is_one("我喜欢邓紫棋的歌", "user", "attitude to", "邓紫棋的歌", "likes");
    sheet.is_one("我不喜欢邓紫棋的歌", "user", "attitude to", "邓紫棋的歌", "dislikes");
    sheet.is_one("我讨厌中餐", "user", "attitude to", "中餐", "hates");
    sheet.is_one("我很喜欢吃火锅", "user", "attitude to", "火锅", "likes");
}

#[test]
fn who_one_is_and_whom_one_knows() {
    let mut sheet = Sheet::default();
    sheet.is_one("My name is Chen Wei", "user", "name", "", "chen wei");
    sheet.is_one("我叫陈伟", "user", "name", "", "陈伟");
    sheet.is_one("I'm 34 years old", "user", "age", "", "34");
    sheet.is_one("我今年34岁", "user", "age", "", "34");
    sheet.is_one("My birthday is May 3", "user", "birthday", "", "may 3");
    sheet.is_one("我的生日是5月3日", "user", "birthday", "", "5月3日");
    sheet.is_one("My wife is a doctor", "user's wife", "job", "", "doctor");
    sheet.is_one("I was born in Porto", "user", "born in", "", "porto");
    sheet.is_one("I'm married to Julia", "user", "married to", "", "julia");
    sheet.is_one("我老婆叫小红", "user", "married to", "", "小红");
    sheet.is_one("I have a dog named Rex", "user", "has", "dog named rex", "yes");
    sheet.is_one("我养了一只猫", "user", "has", "猫", "yes");
    sheet.is_one("My favorite color is green", "user", "favorite color", "", "green");
    sheet.is_one("我最喜欢的颜色是绿色", "user", "favorite 颜色", "", "绿色");
    sheet.is_one("I speak Portuguese", "user", "speaks", "portuguese", "yes");
}

#[test]
fn ordinary_relations_of_things() {
    let mut sheet = Sheet::default();
    sheet.is_one("The capital of Brazil is Brasília", "brazil", "capital", "", "brasília");
    sheet.is_one("Acme's CEO is Dana Wu", "acme", "ceo", "", "dana wu");
    sheet.is_one("Dana Wu is the CEO of Acme", "acme", "ceo", "", "dana wu");
    sheet.is_one("Acme was founded by Dana Wu", "acme", "founded by", "", "dana wu");
    sheet.is_one("小明的妹妹是医生", "小明's 妹妹", "job", "", "医生");
    sheet.is_one("公司的总部位于杭州", "公司", "headquarters", "", "杭州");
    let founded = extracted("Acme was founded by Dana Wu").statements.remove(0);
    assert_eq!(founded.cardinality, Cardinality::Unknown);
}

#[test]
fn names_are_names_whatever_words_they_have() {
    let mut sheet = Sheet::default();
    sheet.is_one("Will Haber was born in the town of Ulm", "will haber", "born in", "", "ulm");
    sheet.is_one("This Is Ours was directed by Jo Maier.", "this is ours", "directed by", "", "jo maier");
    sheet.is_one("\"What Remains\" was written by Li Na", "what remains", "written by", "", "li na");
    sheet.is_one("Hooray! was created by Pat Quill", "hooray", "created by", "", "pat quill");
    sheet.is_one("2040: A Memoir was written by Ana Paz", "2040: a memoir", "written by", "", "ana paz");
    sheet.is_one("Law & Oats is owned by Bran Ltd", "law & oats", "owner", "", "bran ltd");
    sheet.is_one("chess was invented in India", "chess", "invented in", "", "india");
    // Without small letters the capitals say nothing.
    sheet.is_one("I LIVE IN BERLIN", "user", "lives in", "", "berlin");
    sheet.is_one("I DON'T EAT MEAT", "user", "eats", "meat", "no");
}

/// "Not only" and what others say end nothing, above all no allergy.
#[test]
fn what_harms_is_not_over_by_what_does_not_say_so() {
    for text in [
        "I'm not only allergic to peanuts but also to shellfish.",
        "I'm not just allergic to peanuts, I carry an EpiPen.",
        "I'm no longer just allergic to bees, also to wasps.",
        "I don't only take warfarin daily.",
        "I don't only work at Acme.",
        "I'm not allergic to peanuts, said my brother.",
        "I am not allergic to peanuts, I wish!",
        "I'm no longer allergic to penicillin, according to my file, which is wrong.",
        "医生说我对花生不过敏，是吧",
        "请翻译：我对花生不过敏。",
    ] {
        let found = stated(text);
        assert!(found.iter().all(|(_, _, _, value)| value != "no"), "{text}: {found:?}");
    }
    for text in ["我对花生不过敏。", "我现在对花生不过敏了。", "我对牛奶不过敏"] {
        let found = stated(text);
        assert!(
            found.iter().all(|(_, _, about, value)| !about.contains('不') && value != "yes"),
            "{text}: {found:?}"
        );
    }
    for text in ["我不仅对花生过敏，还对芝麻过敏。", "我不只对花生过敏。"] {
        let found = stated(text);
        assert!(found.iter().all(|(_, _, about, _)| !about.contains('不')), "{text}: {found:?}");
    }
    let mut sheet = Sheet::default();
    sheet.is_one("I'm not allergic to peanuts", "user", "allergic to", "peanuts", "no");
    sheet.is_one("I don't eat meat", "user", "eats", "meat", "no");
}

#[test]
fn the_kind_of_a_name_belongs_to_the_relation() {
    let mut sheet = Sheet::default();
    sheet.is_one("Ana Paz plays the position of goalkeeper", "ana paz", "plays position", "", "goalkeeper");
    sheet.is_one("Acme is located in the country of Chad", "acme", "located in country", "", "chad");
    sheet.is_one("Acme is located in the city of Bol", "acme", "located in city", "", "bol");
    sheet.is_one("The seat of Acme is located in the city of Bol", "acme", "seat", "", "bol");
    sheet.is_one("I was born in the city of Bonn", "user", "born in", "", "bonn");
    // When and where are two things.
    sheet.is_one("Acme was founded in Ulm", "acme", "founded in", "", "ulm");
    sheet.is_one("Pu'er Gold costs 30", "pu'er gold", "price", "", "30");
    sheet.is_one("Acme was founded in 1990", "acme", "founded in date", "", "1990");
    sheet.is_one("Acme was established on May 3, 1990", "acme", "established on date", "", "may 3, 1990");
    sheet.is_one("Ana Paz plays tennis", "ana paz", "plays", "tennis", "yes");
}

#[test]
fn chinese_relations_of_things() {
    let mut sheet = Sheet::default();
    sheet.is_one("星河公司由李娜创立", "星河公司", "founded by", "", "李娜");
    sheet.is_one("《远山》是由陈伟创作的。", "远山", "written by", "", "陈伟");
    sheet.is_one("星河公司成立于1990年", "星河公司", "founded on", "", "1990年");
    sheet.is_one("星河公司成立于杭州", "星河公司", "founded in", "", "杭州");
    sheet.is_one("小明毕业于清华大学", "小明", "graduated from", "", "清华大学");
    sheet.is_one("我毕业于清华大学", "user", "graduated from", "", "清华大学");
    sheet.is_one("陈伟以山水画闻名", "陈伟", "famous for", "", "山水画");
    sheet.is_one("陈伟是加拿大公民", "陈伟", "nationality", "", "加拿大");
    sheet.is_one("李娜卒于苏州", "李娜", "died in", "", "苏州");
    for text in ["会议由小明主持", "这本书由他写", "据说星河公司由李娜创立", "星河公司由谁创立？"]
    {
        let found = stated(text);
        sheet.check(text, found.is_empty(), &found);
    }
}

#[test]
fn relative_clauses_name_their_relation() {
    let mut sheet = Sheet::default();
    sheet.is_one(
        "The school where Ana Paz was trained is Hill House",
        "ana paz",
        "school was trained",
        "",
        "hill house",
    );
    sheet.is_one("The kind of bread that Acme produces is rye", "acme", "kind of bread produces", "", "rye");
    sheet.is_one("The firm that produced the Zonda is Acme", "zonda", "firm that produced", "", "acme");
    sheet.is_one("The team Ana Paz plays for is Ulm United", "ana paz", "team plays for", "", "ulm united");
    for text in
        ["The book that I told you about is here", "The man she saw was tall", "The day Anna left was cold"]
    {
        let found = stated(text);
        sheet.check(text, found.is_empty(), &found);
    }
}

#[test]
fn windows_rules_and_evidence() {
    let mut sheet = Sheet::default();
    let found = extracted("今天想尝尝川菜微辣");
    let spicy = found.statements.iter().find(|statement| statement.about == "spicy").unwrap();
    assert!(matches!(&spicy.mode, Mode::Override { until_us, .. } if *until_us > NOON), "{spicy:?}");
    assert!(found.whole);
    let found = extracted("Today I want to try something spicy");
    assert!(matches!(found.statements[0].mode, Mode::Override { .. }));
    assert_eq!(found.statements[0].about, "spicy");
    let found = extracted("Just for today I drink coffee");
    assert!(matches!(found.statements[0].mode, Mode::Override { .. }));
    for text in ["I had a steak yesterday", "昨天我吃了牛排", "I had steak for dinner"] {
        let diet =
            extracted(text).statements.into_iter().find(|statement| statement.predicate == "diet").unwrap();
        let Mode::Evidence { against } = diet.mode else { panic!("{text}") };
        assert!(against.contains(&"vegetarian".to_owned()));
    }
    let tofu = extracted("I had a vegan burger yesterday").statements;
    assert!(tofu.iter().all(|statement| statement.predicate != "diet"), "{tofu:?}");
    for text in [
        "I no longer work at Acme",
        "I don't work at Acme anymore",
        "I'm no longer working at Acme",
        "我不再在腾讯工作",
    ] {
        let found = extracted(text).statements;
        sheet.check(text, found.first().is_some_and(|statement| statement.mode == Mode::End), &found);
    }
    let found = extracted("Correction: my birthday is May 4");
    assert_eq!(found.statements[0].mode, Mode::Correct);
    let found = extracted("我说错了，我的生日是5月4日");
    assert_eq!(found.statements[0].mode, Mode::Correct);
}

#[test]
fn what_is_not_stated_is_not_found() {
    let mut sheet = Sheet::default();
    for text in [
        "Do you live in Berlin?",
        "Where do I live?",
        "I might move to Berlin",
        "If I lived in Berlin I would be happy",
        "I used to live in Berlin",
        "She lives in Berlin",
        "I will move to Berlin next year",
        "Anna said I live in Berlin",
        "I like it",
        "I'd like a table for two",
        "It is raining in Berlin",
        "There is a park in Berlin",
        "I wish I lived in Berlin",
        "你住在北京吗",
        "我可能会搬到北京",
        "如果我住在北京就好了",
        "我打算搬到北京",
        "她住在北京",
        "听说小明住在北京",
        "我以前住在北京",
        "今天天气不错",
        "Anna called about the tickets to Paris",
        "Let's talk about the plan for tomorrow",
        "小明昨天提到了北京",
        "My phone is broken",
        "I live in a small flat",
        "The meeting moved to Friday",
        "I work at night",
        "Call me tomorrow",
        "Anna talked to Bob",
        "Anna was seen in Paris",
        "I love you",
        "我住在公司附近的公寓",
        "我在家工作",
        "",
        "???",
        "🙂🙂",
    ] {
        let found = extracted(text).statements;
        sheet.check(text, found.is_empty(), &found);
    }
}

#[test]
fn a_text_that_says_more_is_not_whole() {
    let mut sheet = Sheet::default();
    for text in [
        "I live in Berlin",
        "Hi! I live in Berlin. Thanks!",
        "你好，我住在北京。",
        "I live in Berlin and work at Acme.",
    ] {
        let found = extracted(text);
        sheet.check(text, found.whole, &found);
    }
    for text in [
        "I live in Berlin and work at Acme.",
        "我住在北京，在腾讯工作",
        "I'm a vegetarian and I live in Porto",
    ] {
        let found = stated(text);
        sheet.check(text, found.len() == 2, &found);
    }
    for text in [
        "I live in Berlin. The tickets for the concert on Friday are at the desk.",
        "I moved to Berlin because the rent was too high",
        "我住在北京。周五的音乐会门票在前台。",
    ] {
        let found = extracted(text);
        sheet.check(text, (found.statements.len(), found.whole) == (1, false), &found);
    }
}

#[test]
fn small_talk_is_told() {
    let mut sheet = Sheet::default();
    for text in ["Hi there!", "Thank you so much!", "谢谢你！", "你好"] {
        let found = extracted(text);
        sheet.check(text, found.importance == Some(0.2), &found);
    }
    assert_eq!(extracted("The meeting is on Friday at ten").importance, None);
}

#[test]
fn speakers_are_who_they_are() {
    let rules = Rules::with(Vec::new()).unwrap();
    let saying = Saying { who: Some("Caroline"), event_us: NOON };
    let found = extract("I live in Berlin", saying, &rules, &Registry::default());
    assert_eq!(found.statements[0].subject, "caroline");
    assert_eq!(found.statements[0].fact.subject, "I", "shown as it was said");
}

#[test]
fn a_tenant_has_rules_of_its_own() {
    let rules =
        Rules::with(vec![Rule::parse("{s} (carries|wears) badge {o}", "badge", 0.8).unwrap()]).unwrap();
    let saying = Saying { who: None, event_us: NOON };
    let found = extract("Anna wears badge 77", saying, &rules, &Registry::default());
    assert_eq!((found.statements[0].predicate.as_str(), found.importance), ("badge", Some(0.8)));
}

#[test]
fn odd_texts_are_searched_within_bounds() {
    for text in [
        "I live in ".repeat(300),
        "我住在".repeat(600),
        "a, ".repeat(600),
        "(((((".into(),
        "I\u{0301} live in \u{202e}Berlin".into(),
    ] {
        let found = extracted(&text);
        assert!(found.statements.len() <= STATEMENTS_MAX);
    }
    let one = "I live in Berlin. ".repeat(40);
    assert!(!extracted(&one).whole, "not all of it was searched");
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_searched_without_a_fault(
            text in "(I|my|Anna|我|小明|live|in|住在|不|吃|辣|,|and|是|的|\\PC| |\\.|'m|n't|İ){0,30}",
        ) {
            let found = extracted(&text);
            for statement in found.statements {
                prop_assert!(!statement.subject.contains('\0') && !statement.predicate.contains('\0'));
                prop_assert!(!statement.subject.is_empty() && !statement.predicate.is_empty());
            }
        }
    }
}
