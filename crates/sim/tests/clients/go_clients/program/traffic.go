package main

import (
	"net/http"
	"slices"
	"sync"
)

// What went over the wire.
type traffic struct {
	lock sync.Mutex
	seen []exchange
}

type exchange struct {
	method, path, query string
	sent, asked, answer string
	protocol            string
}

type listener struct {
	traffic *traffic
	inner   http.RoundTripper
}

func (t *traffic) listen(inner http.RoundTripper) http.RoundTripper {
	return listener{t, inner}
}

func (l listener) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.inner.RoundTrip(request)
	if err == nil {
		l.traffic.lock.Lock()
		defer l.traffic.lock.Unlock()
		l.traffic.seen = append(l.traffic.seen, exchange{
			method:   request.Method,
			path:     request.URL.Path,
			query:    request.URL.RawQuery,
			sent:     request.Header.Get("Content-Type"),
			asked:    request.Header.Get("Accept"),
			answer:   response.Header.Get("Content-Type"),
			protocol: response.Proto,
		})
	}
	return response, err
}

// The last exchange of this method.
func (t *traffic) last(method string) exchange {
	t.lock.Lock()
	defer t.lock.Unlock()
	for _, one := range slices.Backward(t.seen) {
		if one.method == method {
			return one
		}
	}
	return exchange{}
}
