// Google Cloud Storage in memory, with one bucket: `fake BUCKET TOKEN`. Listens on a port of the
// loopback interface, which it prints, until its input ends.
//
// The store is that of fake-gcs-server, which does all reading, listing and removing by the XML API
// that clients use. What that server lacks of the XML API is done here, as Google documents it, by
// its other API:
//
//   - PUT of an object (it knows signed URLs alone) and `x-goog-if-generation-match`: by an
//     upload with `ifGenerationMatch`;
//   - uploads in parts: the parts are kept here, and together they are one upload;
//   - 404 `NoSuchBucket`, which it answers with other codes, and 401 for a wrong token, which it
//     does not look at.
package main

import (
	"bytes"
	"crypto/md5"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// What every part but the last has at least.
const partBytesMin = 5 << 20

type fake struct {
	store         http.Handler
	bucket, token string

	mutex   sync.Mutex
	uploads map[string]*upload
	next    int
}

// Parts of an object that is not there yet, by number.
type upload struct {
	object string
	parts  map[int][]byte
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("expected: fake BUCKET TOKEN")
	}
	bucket, token := os.Args[1], os.Args[2]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := listener.Addr().String()
	store, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: address})
	if err != nil {
		log.Fatal(err)
	}
	store.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	handler := &fake{store: store.HTTPHandler(), bucket: bucket, token: token, uploads: map[string]*upload{}}
	go func() {
		log.Fatal(http.Serve(listener, handler))
	}()
	fmt.Printf("listens on http://%s\n", address)
	io.Copy(io.Discard, os.Stdin)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	query := r.URL.Query()
	id := query.Get("uploadId")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+f.token:
		refuse(w, http.StatusUnauthorized, "AuthenticationRequired", "Authentication required.")
	case bucket != f.bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
	case r.Method == http.MethodPost && query.Has("uploads"):
		f.begin(w, object)
	case r.Method == http.MethodPut && id != "":
		f.part(w, r, id, object)
	case r.Method == http.MethodPost && id != "":
		f.complete(w, r, id, object)
	case r.Method == http.MethodDelete && id != "":
		f.abort(w, id)
	case r.Method == http.MethodPut:
		if answer, ok := f.create(w, r.Body, object, r.Header.Get("X-Goog-If-Generation-Match")); ok {
			answer.head(w)
		}
	default:
		f.store.ServeHTTP(w, r)
	}
}

// What the store says of an object that it has made.
type created struct {
	Etag       string
	Generation string
}

func (c created) head(w http.ResponseWriter) {
	w.Header().Set("ETag", strconv.Quote(strings.Trim(c.Etag, `"`)))
	w.Header().Set("X-Goog-Generation", c.Generation)
}

// Lets the store make an object, unless it has a generation other than `generation`;
// "" = whatever it has.
func (f *fake) create(w http.ResponseWriter, body io.Reader, object, generation string) (created, bool) {
	query := url.Values{"uploadType": {"media"}, "name": {object}}
	if generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	target := "/upload/storage/v1/b/" + f.bucket + "/o?" + query.Encode()
	recorder := httptest.NewRecorder()
	f.store.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, target, body))
	var answer created
	switch recorder.Code {
	case http.StatusOK:
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
			refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
			return answer, false
		}
		return answer, true
	case http.StatusPreconditionFailed:
		refuse(w, recorder.Code, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
	default:
		refuse(w, recorder.Code, "InvalidArgument", recorder.Body.String())
	}
	return answer, false
}

func (f *fake) begin(w http.ResponseWriter, object string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.next++
	id := fmt.Sprintf("upload-%d", f.next)
	f.uploads[id] = &upload{object: object, parts: map[int][]byte{}}
	say(w, struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		Key      string
		UploadId string
	}{Bucket: f.bucket, Key: object, UploadId: id})
}

func (f *fake) part(w http.ResponseWriter, r *http.Request, id, object string) {
	number, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	content, failure := io.ReadAll(r.Body)
	if err != nil || failure != nil || number < 1 || number > 10000 {
		refuse(w, http.StatusBadRequest, "InvalidArgument", "no part")
		return
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	begun := f.uploads[id]
	if begun == nil || begun.object != object {
		refuse(w, http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
		return
	}
	begun.parts[number] = content
	w.Header().Set("ETag", etag(content))
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request, id, object string) {
	var list struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.NewDecoder(r.Body).Decode(&list); err != nil {
		refuse(w, http.StatusBadRequest, "MalformedXML", err.Error())
		return
	}
	f.mutex.Lock()
	begun := f.uploads[id]
	f.mutex.Unlock()
	if begun == nil || begun.object != object {
		refuse(w, http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
		return
	}
	var whole bytes.Buffer
	for at, part := range list.Part {
		content, known := begun.parts[part.PartNumber]
		if !known || part.ETag != etag(content) || (at > 0 && part.PartNumber <= list.Part[at-1].PartNumber) {
			refuse(w, http.StatusBadRequest, "InvalidPart", "A part is missing, another one, or out of order.")
			return
		}
		if len(content) < partBytesMin && at+1 < len(list.Part) {
			refuse(w, http.StatusBadRequest, "EntityTooSmall", "A part is too small.")
			return
		}
		whole.Write(content)
	}
	answer, ok := f.create(w, &whole, object, "")
	if !ok {
		return
	}
	f.mutex.Lock()
	delete(f.uploads, id)
	f.mutex.Unlock()
	answer.head(w)
	say(w, struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket  string
		Key     string
		ETag    string
	}{Bucket: f.bucket, Key: object, ETag: w.Header().Get("ETag")})
}

func (f *fake) abort(w http.ResponseWriter, id string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.uploads[id] == nil {
		refuse(w, http.StatusNotFound, "NoSuchUpload", "The specified upload does not exist.")
		return
	}
	delete(f.uploads, id)
	w.WriteHeader(http.StatusNoContent)
}

func etag(content []byte) string {
	return fmt.Sprintf("\"%x\"", md5.Sum(content))
}

func say(w http.ResponseWriter, answer any) {
	text, err := xml.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.Write(append([]byte(xml.Header), text...))
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	text, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: message})
	if err != nil {
		log.Fatal(err)
	}
	w.Header().Set("Content-Type", "application/xml; charset=UTF-8")
	w.WriteHeader(status)
	w.Write(append([]byte(xml.Header), text...))
}
