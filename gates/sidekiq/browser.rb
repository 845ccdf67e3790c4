# As much of a browser as Sidekiq's Web UI needs: it keeps the session cookie, and submits the forms of a page with the
# values that the page shows. Sidekiq 6 and 7 want the hidden authenticity token back, 8 goes by the header that says where
# a request comes from. Redirects are reported, not followed.

require "cgi"
require "net/http"

class Browser
  Reply = Struct.new(:status, :body, :milliseconds)

  def initialize(port)
    @http = Net::HTTP.new("127.0.0.1", port)
    @http.read_timeout = 30
  end

  def answers?
    head("/").status == 200
  rescue SystemCallError, EOFError
    false
  end

  def get(path) = send_request(Net::HTTP::Get.new(path))

  def head(path) = send_request(Net::HTTP::Head.new(path))

  # Posts to `to` the fields, and the token, of the page `from`. A field that is :shown takes the first value there.
  def submit(from, to, fields)
    page = get(from)
    fields = fields.to_h { |name, value| [name.to_s, (value == :shown) ? values(page, name.to_s).first : value] }
    post = Net::HTTP::Post.new(to)
    post.set_form_data({"authenticity_token" => values(page, "authenticity_token").first, **fields}.compact)
    send_request(post)
  end

  # The keys of the jobs that a list shows, as its check boxes hold them.
  def keys(path) = values(get(path), "key[]")

  private

  def values(page, name)
    fields = page.body.scan(/<input[^>]*>/m).select { |field| field[/name=['"](.*?)['"]/, 1] == name }
    fields.map { |field| CGI.unescapeHTML(field[/value=(['"])(.*?)\1/m, 2]) }
  end

  def send_request(request)
    request["Cookie"] = @cookie if @cookie
    request["Sec-Fetch-Site"] = "same-origin"
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    reply = @http.request(request)
    milliseconds = (Process.clock_gettime(Process::CLOCK_MONOTONIC) - began) * 1000
    @cookie = reply["Set-Cookie"][/\A[^;]+/] if reply["Set-Cookie"]
    Reply.new(reply.code.to_i, reply.body.to_s.dup.force_encoding("UTF-8"), milliseconds)
  end
end
