"""Write the golden file: `python -m tests.golden`."""

import json
import warnings

from tests.golden.cases import CASES, answers
from tests.golden.test_golden import FILE

warnings.simplefilter("ignore")
golden = {}
for name, case in CASES.items():
    golden[name] = answers(case.fitted(), case.data())
rounded = json.loads(json.dumps(golden), parse_float=lambda text: float(f"{float(text):.10g}"))
FILE.write_text(json.dumps(rounded, indent=0).replace(",\n", ",") + "\n", encoding="utf-8")
