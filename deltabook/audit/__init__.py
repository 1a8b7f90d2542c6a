"""Order conservation: whether an exchange and its traders agree on every order, every fill and every unit of money.

```
exchange's inputs ──applied again──▶ messages to each broker ──▶ ledger (plain) ─┐
strategies' journals ──folded──▶ desks ── orders, positions, money ──────────────┼─▶ conservation ─▶ problems
strategies' lists of trades ──▶ profit (plain) ──────────────────────────────────┘
```

Nothing is changed, and neither side need be running. The ledger and the profit are written anew here, as simply as
can be, and share no code with what they check.
"""

from deltabook.audit.conservation import Audit, AuditedStrategy, AuditError, audit
from deltabook.audit.ledger import Account, Ledger, recompute

__all__ = ["Account", "Audit", "AuditError", "AuditedStrategy", "Ledger", "audit", "recompute"]
