package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

type told struct{ *bench }

// Events, as controllers tell them: the old way and the new, which are one object.
func eventChecks(b *bench) []check {
	e := told{b}
	return []check{
		{"an event that is told twice is counted", e.core},
		{"an event of the new kind becomes a series", e.series},
		{"each is seen in the words of the other", e.both},
		{"they are selected by what they are about", e.selected},
	}
}

func (e told) about(ctx context.Context) (*corev1.ConfigMap, error) {
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "about-", Namespace: e.namespace}}
	return e.kube.CoreV1().ConfigMaps(e.namespace).Create(ctx, made, metav1.CreateOptions{})
}

// Waits for the one event with this reason.
func (e told) find(ctx context.Context, reason string, so func(*corev1.Event) bool) error {
	options := metav1.ListOptions{FieldSelector: "reason=" + reason}
	return eventually(ctx, "the event "+reason, func(ctx context.Context) (bool, error) {
		found, err := e.kube.CoreV1().Events(e.namespace).List(ctx, options)
		if err != nil {
			return false, err
		}
		if len(found.Items) > 1 {
			return false, fmt.Errorf("%d events", len(found.Items))
		}
		return len(found.Items) == 1 && so(&found.Items[0]), nil
	})
}

func (e told) core(ctx context.Context) error {
	object, err := e.about(ctx)
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	sink := &typedcorev1.EventSinkImpl{Interface: e.kube.CoreV1().Events("")}
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "go-clients"})
	recorder.Event(object, corev1.EventTypeNormal, "Counted", "said once")
	recorder.Event(object, corev1.EventTypeNormal, "Counted", "said once")
	return e.find(ctx, "Counted", func(event *corev1.Event) bool {
		return event.Count == 2 && event.Source.Component == "go-clients"
	})
}

func (e told) series(ctx context.Context) error {
	object, err := e.about(ctx)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: e.kube.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example.com/go-clients")
	recorder.Eventf(object, nil, corev1.EventTypeWarning, "Serial", "Testing", "said %d times", 1)
	if err := e.find(ctx, "Serial", func(*corev1.Event) bool { return true }); err != nil {
		return err
	}
	recorder.Eventf(object, nil, corev1.EventTypeWarning, "Serial", "Testing", "said %d times", 1)
	return e.find(ctx, "Serial", func(event *corev1.Event) bool {
		return event.Series != nil && event.Series.Count == 2
	})
}

func (e told) both(ctx context.Context) error {
	all, err := e.kube.EventsV1().Events(e.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Counted"})
	if err != nil {
		return err
	}
	if err := expect(len(all.Items) == 1, "%d events", len(all.Items)); err != nil {
		return err
	}
	counted := all.Items[0]
	return first(
		expect(counted.Note == "said once" && counted.DeprecatedCount == 2, "got %v", counted),
		expect(counted.DeprecatedSource.Component == "go-clients", "got %v", counted.DeprecatedSource),
		e.find(ctx, "Serial", func(event *corev1.Event) bool {
			return event.Message == "said 1 times" && event.Action == "Testing" &&
				event.ReportingController == "example.com/go-clients" && event.InvolvedObject.Kind == "ConfigMap"
		}),
	)
}

func (e told) selected(ctx context.Context) error {
	options := metav1.ListOptions{FieldSelector: "involvedObject.kind=ConfigMap,type=Warning"}
	old, err := e.kube.CoreV1().Events(e.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	options = metav1.ListOptions{FieldSelector: "regarding.kind=ConfigMap,type=Normal"}
	fresh, err := e.kube.EventsV1().Events(e.namespace).List(ctx, options)
	return first(
		err,
		expect(len(old.Items) == 1 && old.Items[0].Reason == "Serial", "%d old", len(old.Items)),
		expect(len(fresh.Items) == 1 && fresh.Items[0].Reason == "Counted", "%d new", len(fresh.Items)),
	)
}
