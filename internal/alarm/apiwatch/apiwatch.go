// Package apiwatch is shared by the sources of occurrences. Its client lists and watches the objects of
// one resource, and its loop retries. It also contains the errors and positions of the API server.
package apiwatch

import (
	"errors"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// maxRetryAfter limits the delay that an answer asks for. It can come from a proxy, and the
// API server keeps a position for a few minutes only.
const maxRetryAfter = time.Minute

// IsExpired reports whether the API server no longer has the position (410). The error can be
// the status of a response or an entry of a watch.
func IsExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// isStatus reports whether the error is a status of the API server.
func isStatus(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// newerContinue returns the token with which a list continues at the newest position, if its
// own has expired.
func newerContinue(err error) string {
	var status apierrors.APIStatus
	if !IsExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}

// retryAfter returns the delay that the API server asks for, but at most maxRetryAfter.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
}

// ParsePosition returns a resourceVersion as a number.
func ParsePosition(version string) (uint64, error) {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return 0, err
	}
	return strconv.ParseUint(version, 10, 64)
}

// FormatPosition returns the resourceVersion of a position.
func FormatPosition(position uint64) string {
	return strconv.FormatUint(position, 10)
}

// ResumeAt returns the options of a watch that begins after a position.
func ResumeAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: FormatPosition(position)}
}

// ListAt returns the options of a list of the objects as of a position.
func ListAt(position uint64) metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: FormatPosition(position), ResourceVersionMatch: metav1.ResourceVersionMatchExact}
}
