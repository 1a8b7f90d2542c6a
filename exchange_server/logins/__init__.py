"""Logins of the binary ports, and the permissions of their users.

```
users file (TOML) ──▶ users.py: names, brokers, limits ──▶ gate.py: is this one of them? ──▶ servers
        ▲   └── UsersWatch: read again when it changes ───────┘  │
deltabook exchange passwd: salted hashes                         └── passwords are compared in a thread
```

No log, error or representation contains a password.
"""

from exchange_server.logins.gate import Gate, GateLimits, UsersWatch
from exchange_server.logins.users import PasswordHash, User, check_name, hash_password, load_users

__all__ = ["Gate", "GateLimits", "PasswordHash", "User", "UsersWatch", "check_name", "hash_password", "load_users"]
