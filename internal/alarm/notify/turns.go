package notify

import "github.com/bongsu-io/bongsu/internal/alarm/outbox"

// maxTurn is the number of entries of a tenant that a message of several tenants has, before those of
// the next tenant.
const maxTurn = 25

// pages reads the pending entries of a lane. In the main lane, the tenants take turns, and those of each
// are in order.
type pages struct {
	*worker
	// tenant had the last turn, and after contains the last entry of each that was read.
	tenant string
	after  map[string]int64
}

// pending returns a function that reads the next page, which has at most size entries. They are of one
// tenant, and it is empty at the end.
func (w *worker) pending() func(size int) ([]outbox.Entry, error) {
	p := &pages{w, w.lane.tenant, map[string]int64{}}
	return p.next
}

func (p *pages) next(size int) ([]outbox.Entry, error) {
	q := outbox.Query{Receiver: p.queue.key, Lane: p.lane.id, Limit: min(size, maxTurn)}
	if p.lane.id != outbox.MainLane {
		return p.read(q, "")
	}
	empty := map[string]bool{}
	for {
		tenant, found, err := p.outbox.NextTenant(p.storage, p.queue.key, p.tenant)
		if !found || empty[tenant] || err != nil {
			return nil, err
		}
		p.tenant, q.Tenant = tenant, &tenant
		if entries, err := p.read(q, tenant); len(entries) > 0 || err != nil {
			return entries, err
		}
		empty[tenant] = true
	}
}

// read reads the page after the last one of a tenant.
func (p *pages) read(q outbox.Query, tenant string) ([]outbox.Entry, error) {
	q.After = p.after[tenant]
	entries, err := p.outbox.Pending(p.storage, q)
	if len(entries) > 0 {
		p.after[tenant] = entries[len(entries)-1].ID
	}
	return entries, err
}
