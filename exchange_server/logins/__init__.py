"""Logins of the binary ports, and what each user may do there.

```
users file (TOML) ──▶ users.py: names, brokers, limits ──▶ gate.py: is this one of them? ──▶ servers
        └── watch.py: read again when it changes ──────────────┘
deltabook exchange passwd ──▶ passwords.py: salted hashes ◀──in a thread──┘
```

Passwords are in nobody's log, error or representation.
"""

from exchange_server.logins.gate import Gate, GateLimits
from exchange_server.logins.passwords import PasswordHash, hash_password
from exchange_server.logins.users import User, check_name, load_users
from exchange_server.logins.watch import UsersWatch

__all__ = ["Gate", "GateLimits", "PasswordHash", "User", "UsersWatch", "check_name", "hash_password", "load_users"]
