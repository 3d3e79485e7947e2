// Koishi with its OneBot adapter and one answer: text and a picture, then a voice, then a file.
// Usage: node app.js '{"mode": "ws", "endpoint": "ws://127.0.0.1:1", "port": 2, "token": "t", "selfId": "20002"}'
const { Context, h } = require('koishi')

const options = JSON.parse(process.argv[2])
const say = (what) => console.log(JSON.stringify(what))
const ctx = new Context()

ctx.plugin(require('@koishijs/plugin-server').default, { host: '127.0.0.1', port: options.port })
// Without the http service the adapter never starts, silently.
ctx.plugin(require('@koishijs/plugin-http').default)
ctx.plugin(require('koishi-plugin-adapter-onebot').default, options.mode === 'ws'
  ? { protocol: 'ws', selfId: options.selfId, endpoint: options.endpoint, token: options.token }
  : { protocol: 'ws-reverse', selfId: options.selfId, path: '/onebot', token: options.token })

ctx.on('login-updated', ({ bot }) => say({ event: 'login', status: bot.status, user: bot.user }))
ctx.on('message', async (session) => {
  say({
    event: 'message', content: session.content, guild: session.guildId, user: session.userId,
    id: session.messageId, at: session.stripped.atSelf, quote: session.quote && session.quote.content,
  })
  if (!session.content.includes('hello')) return
  await session.send([
    h.text('hi '), h.image(Buffer.from(options.picture, 'base64'), 'image/png'),
    h.audio(Buffer.from(options.voice, 'base64'), 'audio/wav'),
  ])
  say({ event: 'answered' })
})
ctx.start().then(() => say({ event: 'started' }))
