// Package embedded adds root certificates and time zones to the binary, because an image
// from scratch has neither. Import it for its side effects. Go uses both only if the
// system has none, so that installed certificates and SSL_CERT_FILE have precedence.
package embedded

import (
	_ "time/tzdata" // 400 KB

	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's list, 150 KB
)
