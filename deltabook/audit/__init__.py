"""Order conservation: checks that an exchange and its traders agree on every order, every fill and every unit of money.

```
exchange's inputs ──applied again──▶ messages to each broker ──▶ ledger (plain) ─┐
strategies' journals ──folded──▶ desks ── orders, positions, money ──────────────┼─▶ conservation ─▶ problems
strategies' lists of trades ──▶ profit (plain) ──────────────────────────────────┘
```

Nothing is changed, and neither side need be running. The ledger and the profit are computed here as simply as
possible, and share no code with the code that they check.
"""

from deltabook.audit.conservation import Audit, AuditedStrategy, AuditError, audit
from deltabook.audit.ledger import Account, Ledger, recompute

__all__ = ["Account", "Audit", "AuditError", "AuditedStrategy", "Ledger", "audit", "recompute"]
