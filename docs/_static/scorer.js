// Search results: guide pages first, then the API, then pages on the development.
const GUIDE = /^(index|quickstart|choose|gallery|installation|priors|howto\/|explanation\/|notebooks\/)/;
const LAST = /^(architecture|contributing|benchmarks)/;

var Scorer = {
  score: (result) => {
    const [page, , , , score] = result;
    if (GUIDE.test(page)) return score + 20;
    if (LAST.test(page)) return score - 20;
    return score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
