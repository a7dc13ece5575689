fn main() {
    let t = std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap();
    assert!(holdfast_bench::locomo::dataset::is_locomo(&t));
    let d = holdfast_bench::locomo::Dataset::parse(&t).unwrap();
    let mut n = 0;
    let mut nogold = [0; 6];
    let mut unres = vec![];
    for c in &d.conversations {
        n += c.memories.len();
        for q in &c.questions {
            if q.gold.is_empty() {
                nogold[q.category as usize] += 1;
            }
            unres.extend(q.unresolved.clone());
        }
    }
    println!("{n} {nogold:?} {unres:?}");
    for q in holdfast_bench::locomo::pick(d.conversation("conv-26").unwrap(), 5) {
        println!("{}", serde_json::to_string(&q).unwrap());
    }
    println!("{}", serde_json::to_string(&d.conversations[0].memories[4]).unwrap());
}
