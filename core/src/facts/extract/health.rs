//! Closed lists of what harms and what heals, and what is only said like it: medicines, illnesses, what people are
//! allergic to, what they may not eat. Facts of these are hard constraints, so that a wrong one is worse than none:
//! a word that stands in no list here makes no medication and no illness.
//!
//! Medicines are known by their names, by the stems that the World Health Organization gives to international
//! nonproprietary names ("Stem Book", WHO/EMP/RHT/TSN/2018.1), in Chinese by the forms of these stems, or as a kind:
//! "blood thinners", 降压药. Foods that allergies are known of are those of Annex II of Regulation (EU) No 1169/2011.

mod lists;

use super::lexicon::{self, is_any, joined};
use super::tokens::{Token, is_mark};
use crate::facts::normal;
use lists::{
    ALLERGENS, DOSES, DOSES_CJK, FOOD, FORMS, HOW_MUCH, HOW_MUCH_CJK, ILLNESSES, KINDS, LEAD_INS,
    LESS_THAN_OVER, LESS_THAN_OVER_CJK, MEALS, MEDICINES, NARROWS, NO_ALLERGENS, NO_ALLERGENS_CJK,
    NO_ALLERGENS_FIRST, NO_FOOD_CJK, NO_FOOD_CJK_FIRST, NO_FOOD_FIRST, NO_MEDICINES_CJK, NOUNS, OF_FORMS,
    OF_SOME_TIME, PATIENTS, RESCUE, RESTRICTED, STEM_NAME_BYTES_MIN, STEMS,
};
use std::ops::Range;

/// The parts of a list: what stands between "and", "or" and commas.
pub(super) fn pieces(tokens: &[Token]) -> Vec<Range<usize>> {
    const BETWEEN: [&str; 9] = ["and", "or", ",", "、", "和", "或", "跟", "nor", "plus"];
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in 0..=tokens.len() {
        if tokens.get(at).is_some_and(|token| !BETWEEN.contains(&token.low.as_str())) {
            continue;
        }
        if at > start {
            pieces.push(start..at);
        }
        start = at + 1;
    }
    pieces
}

/// The name of the medicine among words that are nothing but that, its dose and whose it is.
pub(super) fn medicine(tokens: &[Token]) -> Option<Range<usize>> {
    const NAME_TOKENS_MAX: usize = 10;
    let is_dose = |token: &Token| {
        is_any(DOSES, &token.low)
            || token.low.starts_with(|c: char| c.is_ascii_digit())
            || token.low.chars().all(|c| DOSES_CJK.contains(c))
    };
    let most = tokens.iter().take_while(|token| is_dose(token)).count();
    let names = (0..=most).filter(|at| (1..=NAME_TOKENS_MAX).contains(&(tokens.len() - at)));
    // 二甲双胍 begins with a number, and is a name all the same.
    let exact = names.clone().find(|at| is_any(MEDICINES, &joined(&tokens[*at..])));
    if let Some(at) = exact.or_else(|| names.rev().find(|at| is_medicine(&tokens[*at..]))) {
        return Some(at..tokens.len());
    }
    // The dose may stand behind the name, as on a prescription: it begins with its number.
    let number = tokens.iter().position(|token| token.low.starts_with(|c: char| c.is_ascii_digit()))?;
    let (name, dose) = tokens.split_at(number);
    if dose.iter().all(is_dose) { medicine(name) } else { None }
}

fn is_medicine(name: &[Token]) -> bool {
    let text = joined(name);
    if normal::is_chinese(&text) {
        return is_medicine_cjk(&text);
    }
    let (Some(last), true) = (name.last(), name.iter().all(|token| !is_mark(token))) else { return false };
    let front = &name[..name.len() - 1];
    let of_form =
        |token: &Token| is_any(OF_FORMS, &token.low) || is_name_of_medicine(&token.low) || token.low == "'s";
    is_name_of_medicine(&text)
        || matches!(name, [one] if is_any(KINDS, &one.low))
        || is_any(KINDS, &last.low)
            && front.len() <= 2
            && !front.iter().any(|word| NOT_OF_KINDS.contains(&word.low.as_str()))
        || is_any(FORMS, &last.low) && !front.is_empty() && front.iter().all(of_form)
}

/// What there are other thinners, blockers and inhibitors of.
const NOT_OF_KINDS: [&str; 10] = ["paint", "ad", "pop-up", "road", "call", "wind", "rust", "the", "my", "a"];

fn is_name_of_medicine(word: &str) -> bool {
    is_any(MEDICINES, word)
        || word.len() >= STEM_NAME_BYTES_MIN
            && word.chars().all(|c| c.is_ascii_alphabetic())
            && STEMS.iter().any(|stem| word.ends_with(stem))
}

fn is_medicine_cjk(text: &str) -> bool {
    const NAME_CHARS_MAX: usize = 9;
    let known = MEDICINES.iter().chain(STEMS).any(|name| !name.is_ascii() && text.ends_with(name));
    let kind = text.ends_with('药') || text.ends_with("胶囊") || text.ends_with("口服液");
    let named =
        !is_any(NO_MEDICINES_CJK, text) && !NO_MEDICINES_CJK.iter().skip(1).any(|no| text.ends_with(no));
    // 过, 了 and the like belong to the verb: 吃过药.
    let first = text.chars().next().is_some_and(|c| !"过了完错点些在着的这那".contains(c));
    text.chars().count() <= NAME_CHARS_MAX && first && (known || kind && named)
}

/// Whether a sentence tells more of a medicine than that it is taken.
pub(super) fn says_how_much(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| {
        is_any(HOW_MUCH, &token.low)
            || token.low.contains(|c: char| c.is_ascii_digit())
            || token.low.chars().any(|c| HOW_MUCH_CJK.contains(c))
    })
}

/// The illness that words name.
pub(super) fn illness(tokens: &[Token]) -> Option<&'static str> {
    let text = joined(tokens);
    ILLNESSES.iter().find(|(said, _)| *said == text).map(|(_, illness)| *illness)
}

/// The illness of whom words name by it.
pub(super) fn patient(tokens: &[Token]) -> Option<&'static str> {
    let text = joined(tokens);
    PATIENTS.iter().find(|(said, _)| *said == text).map(|(_, illness)| *illness)
}

/// Whether somebody can be allergic to this.
pub(super) fn is_allergen(tokens: &[Token]) -> bool {
    const ALLERGEN_TOKENS_MAX: usize = 6;
    let text = joined(tokens);
    let Some(first) = tokens.first() else { return false };
    if normal::is_chinese(&text) {
        // 并不对花生, 小时候对牛奶, 孙子对花生: what is left of a denial, of another time or of somebody else.
        const NONE_OF: [&str; 19] = [
            "不",
            "没",
            "无",
            "非",
            "否",
            "曾",
            "对",
            "我",
            "又",
            "昨",
            "之前",
            "原来",
            "本来",
            "小时候",
            "怀疑",
            "担心",
            "怕",
            "有时",
            "自己",
        ];
        let is_more = NONE_OF.iter().any(|word| text.contains(word));
        let begins = ["有", "会", "最", "说"].iter().any(|word| text.starts_with(word));
        return tokens.len() <= 10 && !is_more && !begins && !is_any(NO_ALLERGENS_CJK, &text);
    }
    const OF_OTHERS: [&str; 11] =
        ["with", "of", "for", "'s", "who", "think", "believe", "friend", "son", "daughter", "child"];
    if tokens.iter().any(|token| OF_OTHERS.contains(&token.low.as_str())) || illness(tokens).is_some() {
        return false;
    }
    tokens.len() <= ALLERGEN_TOKENS_MAX
        && !is_any(NO_ALLERGENS_FIRST, &first.low)
        && !is_any(NO_ALLERGENS, &text)
        && first.low != "'s"
}

/// Whether people are known to be allergic to this: where the form of the sentence alone says little.
pub(super) fn is_known_allergen(tokens: &[Token]) -> bool {
    /// Who stands in front of an allergen without 对: 我岳母青霉素过敏.
    const PERSONS: &str = "爸妈爷奶公婆哥姐弟妹儿女孙侄甥叔姑姨舅岳孩娃友们人病客母父老";
    let text = joined(tokens);
    if !is_allergen(tokens) || text.chars().any(|c| PERSONS.contains(c)) {
        return false;
    }
    let food = if normal::is_chinese(&text) {
        is_any(RESTRICTED, &text) || lexicon::is_of_animals(&text)
    } else {
        is_known_food(tokens)
    };
    is_any(ALLERGENS, &text) || food || medicine(tokens).is_some_and(|name| name.start == 0)
}

/// Whether a sentence that denies what harms says less than that it is not so, or over.
pub(super) fn says_less_than_over(tokens: &[Token]) -> bool {
    let cjk = |token: &Token| token.low.chars().any(|c| LESS_THAN_OVER_CJK.contains(c));
    tokens.iter().any(|token| is_any(LESS_THAN_OVER, &token.low) || cjk(token))
}

/// Whether a sentence that denies that something is eaten is of some time.
pub(super) fn is_of_some_time(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| is_any(OF_SOME_TIME, &token.low))
}

/// Whether the words before a colon are the speaker's own, and lead in what follows.
pub(super) fn leads_in(tokens: &[Token]) -> bool {
    let own = ["i", "me", "my", "我"];
    is_any(LEAD_INS, &joined(tokens)) || tokens.iter().any(|token| own.contains(&token.low.as_str()))
}

/// Whether these name a food, or what is in foods, that is told to be left alone.
pub(super) fn is_known_food(tokens: &[Token]) -> bool {
    const FOOD_TOKENS_MAX: usize = 3;
    const FOOD_TOKENS_CJK_MAX: usize = 6;
    let text = joined(tokens);
    if normal::is_chinese(&text) {
        let known = RESTRICTED.iter().any(|food| !food.is_ascii() && text.ends_with(food));
        return tokens.len() <= FOOD_TOKENS_CJK_MAX
            && is_eaten(tokens)
            && (known || lexicon::is_animal(tokens));
    }
    let bare = match tokens {
        [front @ .., last] if ["products", "foods", "food", "juice"].contains(&last.low.as_str()) => front,
        all => all,
    };
    let Some(last) = bare.last() else { return false };
    bare.len() <= FOOD_TOKENS_MAX
        && is_eaten(tokens)
        && tokens.iter().all(|token| token.low.chars().all(|c| c.is_alphabetic() || c == '-'))
        && (is_any(RESTRICTED, &last.low) || lexicon::is_animal(bare))
}

/// Whether what stands behind "eat" or "drink" can be what is eaten or drunk.
pub(super) fn is_eaten(tokens: &[Token]) -> bool {
    let text = joined(tokens);
    let Some(first) = tokens.first() else { return false };
    if normal::is_chinese(&text) {
        let begins = NO_FOOD_CJK_FIRST.iter().any(|word| text.starts_with(word));
        return !begins && !is_any(NO_FOOD_CJK, &text);
    }
    let vague =
        |token: &Token| ["anything", "something", "everything", "nothing"].contains(&token.low.as_str());
    !is_any(NO_FOOD_FIRST, &first.low) && !tokens.iter().all(vague)
}

/// Whether it says of less than all of a food that it cannot be eaten.
pub(super) fn is_narrowed(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| is_any(NARROWS, &token.low) || token.low.contains(|c: char| c.is_ascii_digit()))
}

/// Whether it is a meal, or food as such: who does not eat it does so on a day.
pub(super) fn is_meal(tokens: &[Token]) -> bool {
    let last = tokens.last().map_or("", |token| token.low.as_str());
    let text = joined(tokens);
    is_any(MEALS, last) || is_any(MEALS, &text) || FOOD.contains(&text.as_str())
}

/// Whether these are what one may give up to drink.
pub(super) fn is_drink(tokens: &[Token]) -> bool {
    const DRINKS: [&str; 10] = ["酒", "酒精", "咖啡", "茶", "奶茶", "可乐", "饮料", "啤酒", "白酒", "红酒"];
    DRINKS.contains(&joined(tokens).as_str())
}

/// Whether these are what is carried against an allergy.
pub(super) fn is_rescue(tokens: &[Token]) -> bool {
    is_any(RESCUE, &joined(tokens))
}

/// Whether a noun is one of health, of which it is said how it is more often than what.
pub(super) fn is_noun(noun: &[Token]) -> bool {
    let last = noun.last().map_or("", |token| token.low.as_str());
    is_any(NOUNS, last) || is_any(NOUNS, &joined(noun))
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn named(text: &str) -> Option<String> {
        let tokens = tokens(text);
        medicine(&tokens).map(|range| joined(&tokens[range]))
    }

    #[test]
    fn medicines_are_told_from_other_things_that_are_taken() {
        for (text, name) in [
            ("warfarin", "warfarin"),
            ("5 mg of warfarin", "warfarin"),
            ("warfarin 5 mg", "warfarin"),
            ("my metformin 500 mg tablets", "metformin"),
            ("华法林5毫克", "华法林"),
            ("two 500 mg paracetamol", "paracetamol"),
            ("my blood pressure pills", "blood pressure pills"),
            ("Rosuvastatin", "rosuvastatin"),
            ("a beta blocker", "beta blocker"),
            ("blood thinners", "blood thinners"),
            ("华法林", "华法林"),
            ("5毫克华法林", "华法林"),
            ("二甲双胍", "二甲双胍"),
            ("两片降压药", "降压药"),
        ] {
            assert_eq!(named(text).as_deref(), Some(name), "{text}");
        }
        for text in [
            "",
            "the bus",
            "a the",
            "my laptop",
            "my tablet",
            "a drawing tablet",
            "notes",
            "pills",
            "my medication",
            "a break",
            "cholesterol",
            "pop-up blocker",
            "sugar",
            "药",
            "山药",
            "后悔药",
            "农药",
            "错药",
            "平板",
            "5毫克",
            "饭",
        ] {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn lists_fall_into_their_parts() {
        let all = tokens("peanuts, nuts and sesame");
        let parts: Vec<String> = pieces(&all).into_iter().map(|range| joined(&all[range])).collect();
        assert_eq!(parts, ["peanuts", "nuts", "sesame"]);
        assert!(pieces(&[]).is_empty());
        assert!(pieces(&tokens("and")).is_empty());
    }

    #[test]
    fn illnesses_have_one_name_in_both_languages() {
        assert_eq!(patient(&tokens("celiac")), illness(&tokens("乳糜泻")));
        assert_eq!(illness(&tokens("Type 2 diabetes")), Some("type 2 diabetes"));
        assert_eq!(illness(&tokens("cold feet")), None);
        for (said, _) in ILLNESSES.iter().chain(PATIENTS) {
            assert_eq!(joined(&tokens(said)), *said);
        }
    }

    #[test]
    fn phrases_of_eating_are_no_food() {
        for text in ["at eight", "another bite", "out", "太多", "亏", "苦", "醋", "下", "饭", "", "anything"]
        {
            assert!(!is_eaten(&tokens(text)), "{text}");
        }
        for text in ["peanuts", "anything spicy", "花生", "香菜", "醋鱼", "多宝鱼", "快餐", "点心"]
        {
            assert!(is_eaten(&tokens(text)), "{text}");
        }
        assert!(is_known_food(&tokens("tree nuts")) && is_known_food(&tokens("dairy products")));
        assert!(is_known_food(&tokens("海鲜")) && !is_known_food(&tokens("手机")));
        assert!(is_narrowed(&tokens("a whole pizza")) && is_meal(&tokens("lunch")));
        assert!(!is_narrowed(&tokens("peanuts")));
    }
}
