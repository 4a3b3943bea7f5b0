package httppost

import (
	"errors"
	"net/url"
)

// ErrInvalidURL says what is wrong with a URL without telling it: it may be a
// secret.
var ErrInvalidURL = errors.New("the URL must be an absolute http or https URL, for example https://alarms.example.com/bongsu")

// CheckURL is nil or ErrInvalidURL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return ErrInvalidURL
	}
	return nil
}
