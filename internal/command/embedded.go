package command

// An image from scratch has neither root certificates nor time zones. Go uses these only if the
// system has none, so that installed certificates and SSL_CERT_FILE have precedence.
import (
	_ "time/tzdata" // 400 KB

	_ "golang.org/x/crypto/x509roots/fallback" // Mozilla's list, 150 KB
)
