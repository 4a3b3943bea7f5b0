// Package scratch brings along what an image from scratch has not: the certificates
// of public authorities, and time zones. To import it is enough. Both are used only
// where the system has none of its own, so that what an administrator installs, or
// names in SSL_CERT_FILE, stays in charge.
package embedded

import (
	_ "time/tzdata" // 400 KB

	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's list, 150 KB
)
