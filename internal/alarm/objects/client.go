package objects

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"

	"github.com/bongsu-io/bongsu/internal/alarm"
	"github.com/bongsu-io/bongsu/internal/alarm/apiwatch"
)

// client requests the objects of one resource. A page yields one object after another.
type client = apiwatch.Client[[]byte]

// isSecrets reports whether a resource contains Secrets, whose values are never read.
func isSecrets(r alarm.Resource) bool { return r.Group == "" && r.Resource == "secrets" }

// target sets what a client requests. An API server that cannot send only metadata sends whole objects,
// except Secrets.
func target(c *client, r alarm.Resource, onlyMetadata bool) {
	c.Path = "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
	if r.Group == "" {
		c.Path = "/api/" + r.Version + "/" + r.Resource
	}
	c.ListFormat, c.WatchFormat = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if onlyMetadata {
		c.ListFormat += ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		c.WatchFormat += ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	if onlyMetadata && !isSecrets(r) {
		c.ListFormat += "," + runtime.ContentTypeJSON
		c.WatchFormat += "," + runtime.ContentTypeJSON
	}
}

// entry is an entry of a watch.
type entry struct {
	kind string
	// object is the raw object.
	object []byte
}

// parseEntry splits an entry. The object refers to raw.
func parseEntry(raw []byte) (e entry, err error) {
	err = eachMember(raw, func(key, value []byte) error {
		switch string(key) {
		case "type":
			e.kind = string(bytesTrimQuotes(value))
		case "object":
			e.object = value
		}
		return nil
	})
	return e, err
}

func bytesTrimQuotes(value []byte) []byte {
	if len(value) < 2 {
		return value
	}
	return value[1 : len(value)-1]
}

// statusError returns the error that an entry of a watch contains.
func statusError(raw []byte) error {
	var status metav1.Status
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &status); err != nil {
		return errMalformed
	}
	return apierrors.FromObject(&status)
}

// bookmarkPosition returns the position of a bookmark.
func bookmarkPosition(raw []byte) (uint64, error) {
	var bookmark metav1.PartialObjectMetadata
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, &bookmark); err != nil {
		return 0, errMalformed
	}
	return apiwatch.ParsePosition(bookmark.ResourceVersion)
}
