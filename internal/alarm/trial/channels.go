package trial

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bongsu-io/bongsu/internal/alarm/notify/slack"
	"github.com/bongsu-io/bongsu/internal/alarm/receiver"
)

// labelsFor returns the labels of namespaces by which the receivers choose a channel.
func labelsFor(receivers map[string]receiver.Object) (labels []string) {
	for _, object := range receivers {
		labels = append(labels, receiver.NamespaceLabels(object)...)
	}
	return labels
}

// addChannels adds the channel of each message to a report, for the receivers that choose one.
func (a *AlarmReport) addChannels(receivers map[string]receiver.Object, oneNamespace bool) {
	for _, key := range slices.Sorted(maps.Keys(receivers)) {
		channels, chooses := receiver.Channels(receivers[key])
		if !chooses {
			continue
		}
		if !oneNamespace {
			a.Notes = append(a.Notes, fmt.Sprintf("%s gets all messages in %s, because a group can be about several namespaces: "+
				"add regarding.namespace to spec.group.by", displayed(key)[0], channels.Default))
		}
		a.addChannelsOf(key, channels)
	}
}

func (a *AlarmReport) addChannelsOf(key string, channels slack.Channels) {
	for i := range a.Messages {
		m := &a.Messages[i]
		if m.Channels == nil {
			m.Channels = map[string]string{}
		}
		m.Channels[key] = channels.Choose(&m.Message)
	}
}
