// Search results: guide pages first, then the API, then pages on the development.
const GUIDE = /^(index|quickstart|choose|gallery|installation|priors|howto\/|explanation\/|notebooks\/)/;
const LAST = /^(architecture|contributing|benchmarks)/;

// Words of the query that stand in a title count most.
const asked = (new URLSearchParams(window.location.search).get("q") || "")
  .toLowerCase()
  .split(/\W+/)
  .filter((word) => word.length > 2);

var Scorer = {
  score: (result) => {
    const [page, title, , , score] = result;
    const found = asked.filter((word) => title.toLowerCase().includes(word)).length;
    const place = GUIDE.test(page) ? 20 : LAST.test(page) ? -20 : 0;
    return score + place + 15 * found;
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
