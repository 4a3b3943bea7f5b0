package objects

import (
	"github.com/google/uuid"
)

// mark is what memory contains of a baseline. It has no pointers, which the garbage collector
// would follow.
type mark struct {
	// digest is that of the shape and the content. It is zero if no alarm needs the object.
	digest [16]byte
	// listed is set on the objects that the current list contained.
	listed bool
}

// known remembers the baselines of a stream. BenchmarkKnown measures its memory.
type known struct {
	byUUID map[uuid.UUID]mark
	// other contains UIDs that are not UUIDs in canonical form.
	other map[string]mark
}

func newKnown() *known {
	return &known{byUUID: map[uuid.UUID]mark{}, other: map[string]mark{}}
}

// parseUUID accepts only texts that uuid.UUID.String returns.
func parseUUID(uid string) (uuid.UUID, bool) {
	id, err := uuid.Parse(uid)
	return id, err == nil && id.String() == uid
}

func (k *known) get(uid string) (mark, bool) {
	if id, ok := parseUUID(uid); ok {
		m, found := k.byUUID[id]
		return m, found
	}
	m, found := k.other[uid]
	return m, found
}

func (k *known) set(uid string, m mark) {
	if id, ok := parseUUID(uid); ok {
		k.byUUID[id] = m
		return
	}
	k.other[uid] = m
}

func (k *known) remove(uid string) {
	if id, ok := parseUUID(uid); ok {
		delete(k.byUUID, id)
		return
	}
	delete(k.other, uid)
}

// beginList forgets which objects an earlier list contained.
func (k *known) beginList() {
	for id, m := range k.byUUID {
		m.listed = false
		k.byUUID[id] = m
	}
	for uid, m := range k.other {
		m.listed = false
		k.other[uid] = m
	}
}

// list records that the current list contains an object.
func (k *known) list(uid string) {
	if m, ok := k.get(uid); ok {
		m.listed = true
		k.set(uid, m)
	}
}

// unlisted returns the objects that the current list did not contain.
func (k *known) unlisted() (uids []string) {
	for id, m := range k.byUUID {
		if !m.listed {
			uids = append(uids, id.String())
		}
	}
	for uid, m := range k.other {
		if !m.listed {
			uids = append(uids, uid)
		}
	}
	return uids
}
